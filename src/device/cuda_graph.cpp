#include "device/cuda_graph.hpp"

#include "device/cuda_check.hpp"

namespace ple {

Status CudaGraph::begin(cudaStream_t stream) {
  PLE_CUDA_TRY(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  return {};
}

Result<CudaGraph> CudaGraph::end(cudaStream_t stream, const Status& enqueued) {
  cudaGraph_t captured = nullptr;
  const Status ended =
      cuda_status(cudaStreamEndCapture(stream, &captured), "cudaStreamEndCapture(stream)");
  CudaGraph graph;
  Status status = enqueued.is_ok() ? ended : enqueued;
  if (status.is_ok()) {
    status = cuda_status(cudaGraphInstantiate(&graph.graph_, captured, 0), "cudaGraphInstantiate");
  }
  if (captured != nullptr) (void)cudaGraphDestroy(captured);
  if (!status.is_ok()) return status;
  return graph;
}

CudaGraph& CudaGraph::operator=(CudaGraph&& other) noexcept {
  if (this == &other) return *this;
  release();
  graph_ = std::exchange(other.graph_, nullptr);
  return *this;
}

void CudaGraph::release() {
  if (graph_ != nullptr) (void)cudaGraphExecDestroy(graph_);
}

Status CudaGraph::launch(cudaStream_t stream) const {
  PLE_CUDA_TRY(cudaGraphLaunch(graph_, stream));
  return {};
}

}  // namespace ple
