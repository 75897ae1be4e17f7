#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "device/cuda_check.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_stream.hpp"

// Times of what is enqueued on a stream, by events.

namespace ple::test {

inline void check(const Status& status) {
  if (status.is_ok()) return;
  fmt::print(stderr, "{}\n", status.message());
  std::exit(1);
}

struct Times {
  double median_us = 0.0;
  double least_us = 0.0;
  double most_us = 0.0;
};

// Times of one call in batches of back-to-back calls, medians over the batches.
template <class F>
Times time_calls(cudaStream_t stream, std::int32_t batch_count, std::int32_t batch, F&& call) {
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  check(cuda_status(cudaEventCreate(&begin), "cudaEventCreate"));
  check(cuda_status(cudaEventCreate(&end), "cudaEventCreate"));
  std::vector<double> times;  // microseconds
  for (std::int32_t b = -2; b < batch_count; ++b) {
    check(cuda_status(cudaEventRecord(begin, stream), "cudaEventRecord"));
    for (std::int32_t i = 0; i < batch; ++i) check(call(i));
    check(cuda_status(cudaEventRecord(end, stream), "cudaEventRecord"));
    check(cuda_status(cudaEventSynchronize(end), "cudaEventSynchronize"));
    float milliseconds = 0.0F;
    check(cuda_status(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime"));
    if (b >= 0) times.push_back(static_cast<double>(milliseconds) * 1000.0 / batch);
  }
  (void)cudaEventDestroy(begin);
  (void)cudaEventDestroy(end);
  std::sort(times.begin(), times.end());
  return {times[times.size() / 2], times.front(), times.back()};
}

// Prints the rate of a copy in the device's memory, in GB/s read and written; gives it.
inline double print_copy_rate(bool is_smoke) {
  const std::size_t bytes = std::size_t{is_smoke ? 1U : 2048U} << 20;
  const DeviceBuffer from = DeviceBuffer::allocate(bytes).value();
  const DeviceBuffer to = DeviceBuffer::allocate(bytes).value();
  check(cuda_status(cudaMemset(from.data(), 1, bytes), "cudaMemset"));
  const CudaStream stream = CudaStream::create().value();
  const Times times = time_calls(stream.get(), is_smoke ? 1 : 10, 2, [&](std::int32_t) {
    return copy_async(to.data(), from.data(), bytes, stream.get());
  });
  const double gb_per_s = 2.0 * static_cast<double>(bytes) / times.median_us / 1000.0;
  fmt::print("copy in HBM: {:.0f} GB/s read and written\n", gb_per_s);
  return gb_per_s;
}

}  // namespace ple::test
