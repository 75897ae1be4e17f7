#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/status.hpp"

namespace ple {

// What the kernels and the engine need to know of one CUDA device.
struct CudaTraits {
  std::int32_t device_index = 0;
  std::int32_t compute_major = 0;
  std::int32_t compute_minor = 0;
  std::int32_t multiprocessor_count = 0;
  bool is_integrated = false;  // shares the host's memory: rows stay in pinned host memory
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  std::string name;

  // wgmma and its copy engine exist on compute capability 9.0 alone.
  bool has_wgmma() const { return compute_major == 9; }
  // A kernel may start while the one before it in the stream still runs.
  bool has_overlapped_launch() const { return compute_major >= 9; }
};

// The number of devices the driver shows; 0 where there is no driver.
std::int32_t cuda_device_count();
Result<CudaTraits> cuda_traits(std::int32_t device_index);

// The device that is current for the calling thread.
Result<std::int32_t> current_cuda_device();

// Makes a device current for the calling thread, and calls legal that are not captured while a
// stream is being captured, by this thread or another; ends both when it goes.
class CudaScope {
 public:
  static Result<CudaScope> enter(std::int32_t device_index);
  CudaScope(CudaScope&& other) noexcept;
  CudaScope& operator=(CudaScope&&) = delete;
  ~CudaScope();

 private:
  static constexpr std::int32_t kNone = -1;
  CudaScope() = default;
  cudaStreamCaptureMode capture_mode_ = cudaStreamCaptureModeRelaxed;
  std::int32_t previous_device_ = kNone;
  bool is_entered_ = false;
};

}  // namespace ple
