#include "device/cuda_check.hpp"

#include "base/error.hpp"

namespace ple {

Status cuda_status(cudaError_t code, const char* call) {
  if (code == cudaSuccess) return {};
  (void)cudaGetLastError();  // it is reported here, not by the caller's next check of his own
  const auto kind =
      code == cudaErrorMemoryAllocation ? StatusCode::out_of_memory : StatusCode::device_error;
  return error(kind, "CUDA: {} failed: {} ({})", call, cudaGetErrorString(code),
               cudaGetErrorName(code));
}

}  // namespace ple
