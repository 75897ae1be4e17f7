#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "base/status.hpp"

namespace ple {

// Owns an executable graph.
class CudaGraph {
 public:
  // What body enqueues on the stream. A failure of body ends the capture and is returned.
  template <class Body>
  static Result<CudaGraph> capture(cudaStream_t stream, Body&& body) {
    PLE_TRY(begin(stream));
    const Status enqueued = body();
    return end(stream, enqueued);
  }
  CudaGraph() = default;
  CudaGraph(CudaGraph&& other) noexcept : graph_(std::exchange(other.graph_, nullptr)) {}
  CudaGraph& operator=(CudaGraph&& other) noexcept;
  ~CudaGraph() { release(); }

  Status launch(cudaStream_t stream) const;
  cudaGraphExec_t get() const { return graph_; }

 private:
  static Status begin(cudaStream_t stream);
  static Result<CudaGraph> end(cudaStream_t stream, const Status& enqueued);
  void release();
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace ple
