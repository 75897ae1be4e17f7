#include <algorithm>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "engine/async_cuda.hpp"
#include "engine/backend.hpp"
#include "engine/layers_cuda.hpp"

namespace ple {

namespace {

LoadLayerCuda& loader_of(const Qwen4ExpLayer&) { return load_qwen4_exp_layer_cuda; }
LoadLayerCuda& loader_of(const EngramLayer&) { return load_engram_v41_layer_cuda; }
LoadLayerCuda& loader_of(const EngramDemoLayer&) { return load_engram_demo_layer_cuda; }
LoadLayerCuda& loader_of(const LongcatLayer&) { return load_longcat_layer_cuda; }
LoadLayerCuda& loader_of(const GemmaLayer&) { return load_gemma_layer_cuda; }

class CudaBackend final : public Backend {
 public:
  CudaBackend(std::unique_ptr<AsyncCuda> device, std::unique_ptr<ThreadPool> pool,
              SlotPlace slot_place)
      : device_(std::move(device)), pool_(std::move(pool)), slot_place_(slot_place) {
    const CudaTraits& traits = device_->traits();
    device_name_ = fmt::format("cuda:{} ({}, sm_{}{})", traits.device_index, traits.name,
                               traits.compute_major, traits.compute_minor);
    if (slot_place_ == SlotPlace::automatic) {
      slot_place_ = traits.is_integrated ? SlotPlace::pinned : SlotPlace::device;
    }
  }

  const std::string& device_name() const override { return device_name_; }
  std::int32_t thread_count() const override { return pool_->thread_count(); }
  ThreadPool* staging_pool() override { return pool_.get(); }
  kernels::Arithmetic default_arithmetic() const override { return kernels::Arithmetic::mixed; }
  SlotPlace slot_place() const override { return slot_place_; }
  AsyncDevice* async() override { return device_.get(); }

  SlotMemoryFactory slot_memory() override {
    return slot_place_ == SlotPlace::device ? device_memory() : landing_memory();
  }
  SlotMemoryFactory state_memory() override {
    return [this](std::size_t bytes) { return device_->memory().make_state(bytes); };
  }
  SlotMemoryFactory landing_memory() override {
    return [this](std::size_t bytes) { return device_->memory().make_pinned(bytes); };
  }

  Result<std::unique_ptr<Layer>> load_layer(const ModelSpec& model, const LayerSpec& layer,
                                            const LayerOptions& options) override {
    auto loaded = std::visit(
        [&](const auto& parts) { return loader_of(parts)(model, layer, options, *device_); },
        layer.parts);
    if (loaded.is_ok()) return loaded;
    return error(loaded.status().code(), "{}: layer {}: {}",
                 model.files.empty() ? "described model" : model.files.front().path,
                 layer.layer_index, loaded.status().message());
  }

 private:
  SlotMemoryFactory device_memory() {
    return [this](std::size_t bytes) { return device_->memory().make_device(bytes); };
  }

  std::unique_ptr<AsyncCuda> device_;
  std::unique_ptr<ThreadPool> pool_;
  SlotPlace slot_place_;
  std::string device_name_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cuda_backend(std::int32_t device_index, SlotPlace slot_place,
                                                   std::int32_t thread_count) {
  constexpr std::uint32_t kStagingThreads = 8;
  if (thread_count == 0) {
    const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
    thread_count = static_cast<std::int32_t>(std::min(processors, kStagingThreads));
  }
  PLE_TRY_ASSIGN(auto device, AsyncCuda::open(device_index));
  PLE_TRY_ASSIGN(auto pool, ThreadPool::create(thread_count));
  return std::unique_ptr<Backend>(
      std::make_unique<CudaBackend>(std::move(device), std::move(pool), slot_place));
}

}  // namespace ple
