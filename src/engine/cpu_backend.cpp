#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "base/thread_pool.hpp"
#include "engine/backend.hpp"
#include "engine/layers_cpu.hpp"
#include "kernels/projection.hpp"

namespace ple {

namespace {

class HostMemory : public SlotMemory {
 public:
  explicit HostMemory(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}
  std::byte* host_address() override { return buffer_.data(); }
  std::byte* kernel_address() override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }

 private:
  AlignedBuffer buffer_;
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(std::unique_ptr<ThreadPool> pool)
      : pool_(std::move(pool)),
        device_name_(fmt::format("cpu ({})", kernels::projection_target())) {}

  const std::string& device_name() const override { return device_name_; }
  std::int32_t thread_count() const override { return pool_->thread_count(); }
  kernels::Arithmetic default_arithmetic() const override { return kernels::Arithmetic::float32; }

  SlotMemoryFactory slot_memory() const override {
    return [](std::size_t bytes) -> Result<std::unique_ptr<SlotMemory>> {
      PLE_TRY_ASSIGN(AlignedBuffer buffer, AlignedBuffer::allocate(bytes));
      return std::unique_ptr<SlotMemory>(std::make_unique<HostMemory>(std::move(buffer)));
    };
  }
  SlotMemoryFactory landing_memory() const override { return {}; }

  Result<std::unique_ptr<Layer>> load_layer(const ModelSpec& model, const LayerSpec& layer,
                                            const LayerOptions& options) override {
    if (std::holds_alternative<Qwen4ExpLayer>(layer.parts)) {
      return load_qwen4_exp_layer_cpu(model, layer, options, *pool_);
    }
    return error(StatusCode::unsupported, "layer {}: this family has no operators on a CPU",
                 layer.layer_index);
  }

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::string device_name_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_cpu_backend(std::int32_t thread_count) {
  PLE_TRY_ASSIGN(std::unique_ptr<ThreadPool> pool, ThreadPool::create(thread_count));
  return std::unique_ptr<Backend>(std::make_unique<CpuBackend>(std::move(pool)));
}

}  // namespace ple
