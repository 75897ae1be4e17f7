#include "device/cuda_device.hpp"

#include "base/error.hpp"
#include "device/cuda_check.hpp"

namespace ple {

std::int32_t cuda_device_count() {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) {
    (void)cudaGetLastError();  // a machine without a driver is not an error to remember
    return 0;
  }
  return count;
}

Result<CudaTraits> cuda_traits(std::int32_t device_index) {
  const std::int32_t count = cuda_device_count();
  if (device_index < 0 || device_index >= count) {
    return error(StatusCode::invalid_argument, "device cuda:{}: the driver shows {} CUDA devices",
                 device_index, count);
  }
  cudaDeviceProp properties{};
  PLE_CUDA_TRY(cudaGetDeviceProperties(&properties, device_index));
  CudaTraits traits;
  traits.device_index = device_index;
  traits.compute_major = properties.major;
  traits.compute_minor = properties.minor;
  traits.multiprocessor_count = properties.multiProcessorCount;
  traits.is_integrated = properties.integrated != 0;
  traits.l2_bytes = properties.l2CacheSize;
  traits.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  traits.name = properties.name;
  if (traits.compute_major < 8) {
    return error(StatusCode::unsupported,
                 "device cuda:{} ({}): compute capability {}.{} is below 8.0", device_index,
                 traits.name, traits.compute_major, traits.compute_minor);
  }
  return traits;
}

Result<std::int32_t> current_cuda_device() {
  int device = 0;
  PLE_CUDA_TRY(cudaGetDevice(&device));
  return device;
}

Result<CudaScope> CudaScope::enter(std::int32_t device_index) {
  CudaScope scope;
  PLE_CUDA_TRY(cudaThreadExchangeStreamCaptureMode(&scope.capture_mode_));
  scope.is_entered_ = true;
  PLE_TRY_ASSIGN(const std::int32_t previous, current_cuda_device());
  if (previous == device_index) return scope;
  PLE_CUDA_TRY(cudaSetDevice(device_index));
  scope.previous_device_ = previous;
  return scope;
}

CudaScope::CudaScope(CudaScope&& other) noexcept
    : capture_mode_(other.capture_mode_),
      previous_device_(std::exchange(other.previous_device_, kNone)),
      is_entered_(std::exchange(other.is_entered_, false)) {}

CudaScope::~CudaScope() {
  if (previous_device_ != kNone) (void)cudaSetDevice(previous_device_);
  if (is_entered_) (void)cudaThreadExchangeStreamCaptureMode(&capture_mode_);
}

}  // namespace ple
