#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "command.hpp"

// Owners of what the tool itself takes from CUDA; a call that fails ends the command.

namespace pleiades::cli {

inline void check_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) refuse("{}: {}", call, cudaGetErrorString(code));
}
#define CHECK_CUDA(call) check_cuda((call), #call)

class GpuBuffer {
 public:
  explicit GpuBuffer(std::size_t bytes) { CHECK_CUDA(cudaMalloc(&data_, bytes)); }
  GpuBuffer(const GpuBuffer&) = delete;
  GpuBuffer& operator=(const GpuBuffer&) = delete;
  ~GpuBuffer() { (void)cudaFree(data_); }
  void* get() const { return data_; }

 private:
  void* data_ = nullptr;
};

class GpuStream {
 public:
  GpuStream() { CHECK_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  GpuStream(const GpuStream&) = delete;
  GpuStream& operator=(const GpuStream&) = delete;
  ~GpuStream() { (void)cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

class GpuEvent {
 public:
  GpuEvent() { CHECK_CUDA(cudaEventCreate(&event_)); }
  GpuEvent(const GpuEvent&) = delete;
  GpuEvent& operator=(const GpuEvent&) = delete;
  ~GpuEvent() { (void)cudaEventDestroy(event_); }
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

}  // namespace pleiades::cli
