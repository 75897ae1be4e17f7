#pragma once

#include <cstdlib>
#include <functional>
#include <memory>
#include <utility>

#include "base/thread_pool.hpp"
#include "device/cuda_check.hpp"
#include "support/fake_cuda_stream.hpp"

// How the fake launchers of src/kernels run the CPU's operators.

namespace ple::test {

inline ThreadPool& pool() {
  static const std::unique_ptr<ThreadPool> pool = ThreadPool::create(1).value();
  return *pool;
}

// A launch that was accepted cannot fail.
inline void require(const Status& status) {
  if (!status.is_ok()) std::abort();
}

// operation: in the stream's turn, until it returns true.
inline Status launch(cudaStream_t stream, std::function<bool()> operation) {
  use_device();
  if (this_call_fails()) return cuda_status(cudaErrorLaunchFailure, "a launch");
  return cuda_status(FakeDevice::get().enqueue(stream, std::move(operation)), "a launch");
}

}  // namespace ple::test
