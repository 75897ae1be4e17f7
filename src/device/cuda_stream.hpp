#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "base/status.hpp"

namespace ple {

// Owns a non-blocking stream of the device that was current at create().
class CudaStream {
 public:
  static Result<CudaStream> create();
  // The device prefers its work to that of other streams.
  static Result<CudaStream> create_preferred();
  CudaStream() = default;
  CudaStream(CudaStream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  CudaStream& operator=(CudaStream&& other) noexcept;
  ~CudaStream() { release(); }

  cudaStream_t get() const { return stream_; }
  Status synchronize() const;

 private:
  void release();
  cudaStream_t stream_ = nullptr;
};

// Owns an event without timing.
class CudaEvent {
 public:
  static Result<CudaEvent> create();
  CudaEvent() = default;
  CudaEvent(CudaEvent&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  ~CudaEvent() { release(); }

  cudaEvent_t get() const { return event_; }
  Status record(cudaStream_t stream) const;
  // The stream goes on only after what the event recorded.
  Status wait_on(cudaStream_t stream) const;
  // Whether the device is past the last record; true if there was none.
  Result<bool> is_done() const;
  Status synchronize() const;

 private:
  void release();
  cudaEvent_t event_ = nullptr;
};

// Whether work enqueued on the stream is being captured into a graph.
Result<bool> is_capturing(cudaStream_t stream);

}  // namespace ple
