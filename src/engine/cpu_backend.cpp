#include <utility>

#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "engine/backend.hpp"
#include "engine/layers_cpu.hpp"
#include "kernels/projection.hpp"

namespace ple {

namespace {

LoadLayerCpu& loader_of(const Qwen4ExpLayer&) { return load_qwen4_exp_layer_cpu; }
LoadLayerCpu& loader_of(const EngramLayer&) { return load_engram_v41_layer_cpu; }
LoadLayerCpu& loader_of(const EngramDemoLayer&) { return load_engram_demo_layer_cpu; }
LoadLayerCpu& loader_of(const LongcatLayer&) { return load_longcat_layer_cpu; }
LoadLayerCpu& loader_of(const GemmaLayer&) { return load_gemma_layer_cpu; }

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(std::unique_ptr<ThreadPool> pool)
      : pool_(std::move(pool)),
        device_name_(fmt::format("cpu ({})", kernels::projection_target())) {}

  const std::string& device_name() const override { return device_name_; }
  std::int32_t thread_count() const override { return pool_->thread_count(); }
  kernels::Arithmetic default_arithmetic() const override { return kernels::Arithmetic::float32; }

  SlotPlace slot_place() const override { return SlotPlace::pinned; }
  AsyncDevice* async() override { return nullptr; }

  SlotMemoryFactory slot_memory() override { return make_host_slot_memory; }
  SlotMemoryFactory state_memory() override { return make_host_slot_memory; }
  SlotMemoryFactory landing_memory() override { return make_host_slot_memory; }

  Result<std::unique_ptr<Layer>> load_layer(const ModelSpec& model, const LayerSpec& layer,
                                            const LayerOptions& options) override {
    return std::visit(
        [&](const auto& parts) { return loader_of(parts)(model, layer, options, *pool_); },
        layer.parts);
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::string device_name_;
};

}  // namespace

Result<std::unique_ptr<LayerWorkspace>> StatelessLayerCpu::make_workspace(std::int32_t tokens_max,
                                                                          std::int32_t) const {
  auto workspace = std::make_unique<Workspace>();
  PLE_TRY_ASSIGN(workspace->scratch,
                 AlignedBuffer::allocate(static_cast<std::size_t>(workspace_bytes(tokens_max))));
  workspace->flags.resize(static_cast<std::size_t>(tokens_max));
  return std::unique_ptr<LayerWorkspace>(std::move(workspace));
}

Result<std::unique_ptr<Backend>> make_cpu_backend(std::int32_t thread_count) {
  PLE_TRY_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(thread_count));
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(std::move(pool)));
}

}  // namespace ple
