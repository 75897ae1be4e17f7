#include "kernels/stream_flag_cuda.hpp"

#include "device/cuda_check.hpp"
#include "kernels/device_math.cuh"

namespace ple::kernels {

namespace {

constexpr unsigned kPauseNs = 200;  // between two reads over the bus

__global__ __launch_bounds__(1) void wait_flag_kernel(const std::uint32_t* flag) {
  std::uint32_t value = 0;
  for (;;) {
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    if (value != 0) return;
    __nanosleep(kPauseNs);
  }
}

__global__ __launch_bounds__(1) void raise_flag_kernel(std::uint32_t* flag) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(1) : "memory");
}

}  // namespace

Status wait_flag_cuda(const std::uint32_t* flag, cudaStream_t stream) {
  PLE_CUDA_TRY(launch(wait_flag_kernel, {.grid = dim3(1), .block_threads = 1}, stream, flag));
  return {};
}

Status raise_flag_cuda(std::uint32_t* flag, cudaStream_t stream) {
  PLE_CUDA_TRY(launch(raise_flag_kernel, {.grid = dim3(1), .block_threads = 1}, stream, flag));
  return {};
}

}  // namespace ple::kernels
