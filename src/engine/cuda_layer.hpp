#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "device/cuda_memory.hpp"
#include "engine/async_cuda.hpp"
#include "engine/layer.hpp"

namespace ple {

// Device memory at an address that the kernels' copies want.
class AlignedDeviceBuffer {
 public:
  static Result<AlignedDeviceBuffer> allocate(std::size_t bytes);
  std::byte* data() const;
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }

 private:
  static constexpr std::size_t kAlignment = 1024;
  DeviceBuffer memory_;
};

// Brings a tensor of the checkpoint into device memory of its size; returns when it is there.
Status upload_tensor(const ModelSpec& model, const TensorRef& tensor, std::byte* to,
                     cudaStream_t stream);
Result<DeviceBuffer> upload_tensor(const ModelSpec& model, const TensorRef& tensor,
                                   cudaStream_t stream);

// One run of a layer, as the kernels take it. All addresses are the device's.
struct CudaRun {
  const std::byte* pinned_block = nullptr;  // what write_block wrote
  std::byte* block = nullptr;               // as many bytes of device memory for it
  std::byte* scratch = nullptr;             // 1024-byte aligned
  const void* input = nullptr;
  void* output = nullptr;
  std::int32_t token_capacity = 0;
  std::int32_t span_capacity = 0;
};

// A layer on a CUDA device but for its operators: where captured and eager runs find their batch,
// and the copies of input and output that lie in pageable host memory.
class CudaLayer : public Layer {
 public:
  Result<std::unique_ptr<LayerWorkspace>> make_workspace(std::int32_t tokens_max,
                                                         std::int32_t sequences_max) const final;
  std::int64_t workspace_bytes(std::int64_t token_count) const final;
  Status prepare(LayerWorkspace& workspace, const LayerRun& run) const final;
  Status run(LayerWorkspace& workspace, const LayerRun& run) const final;

 protected:
  // The device outlives the layer.
  explicit CudaLayer(AsyncCuda& device) : device_(device) {}

  // The bytes that hold a batch of up to that many tokens and spans. Zeroed they are an empty one.
  virtual std::size_t block_bytes(std::int32_t token_capacity,
                                  std::int32_t span_capacity) const = 0;
  virtual void write_block(const LayerRun& run, std::byte* block, std::int32_t token_capacity,
                           std::int32_t span_capacity) const = 0;

  virtual std::size_t scratch_bytes(std::int32_t token_capacity) const = 0;

  // Enqueues the kernels on the run's stream. A captured run serves any batch up to the capacities,
  // so it reads from the block how many tokens there are.
  virtual Status enqueue(const LayerRun& run, const CudaRun& cuda) const = 0;

  AsyncCuda& device_;

 private:
  struct Workspace;

  Status enqueue_batch(Workspace& workspace, const LayerRun& run, const void* input,
                       void* output) const;
  Status run_on_copies(Workspace& workspace, const LayerRun& run, bool sees_input,
                       bool sees_output) const;
};

}  // namespace ple
