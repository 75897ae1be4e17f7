#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <utility>

#include "base/status.hpp"

namespace ple {

// Owns a non-blocking stream of the device that was current at create(), and is destroyed on it.
class CudaStream {
 public:
  static Result<CudaStream> create();
  // The device prefers its work to that of other streams.
  static Result<CudaStream> create_preferred();
  CudaStream() = default;
  CudaStream(CudaStream&& other) noexcept { *this = std::move(other); }
  CudaStream& operator=(CudaStream&& other) noexcept;
  ~CudaStream() { release(); }

  cudaStream_t get() const { return stream_; }
  Status synchronize() const;

 private:
  void release();
  cudaStream_t stream_ = nullptr;
  std::int32_t device_index_ = 0;
};

// Owns an event without timing.
class CudaEvent {
 public:
  static Result<CudaEvent> create();
  CudaEvent() = default;
  CudaEvent(CudaEvent&& other) noexcept { *this = std::move(other); }
  CudaEvent& operator=(CudaEvent&& other) noexcept;
  ~CudaEvent() { release(); }

  cudaEvent_t get() const { return event_; }
  Status record(cudaStream_t stream) const;
  // On a stream that is being captured: each launch of the graph records it, from the launch on.
  Status record_in_graph(cudaStream_t stream) const;
  // The stream goes on only after what the event recorded.
  Status wait_on(cudaStream_t stream) const;
  // Whether the device is past the last record; true if there was none.
  Result<bool> is_done() const;
  Status synchronize() const;

 private:
  void release();
  cudaEvent_t event_ = nullptr;
  std::int32_t device_index_ = 0;
};

// Whether work enqueued on the stream is being captured into a graph.
Result<bool> is_capturing(cudaStream_t stream);

}  // namespace ple
