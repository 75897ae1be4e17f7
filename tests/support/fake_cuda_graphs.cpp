// The fake CUDA runtime's captures and graphs.

#include <cuda_runtime_api.h>

#include <atomic>
#include <mutex>
#include <utility>

#include "support/fake_cuda.hpp"
#include "support/fake_cuda_stream.hpp"

namespace ple::test {

namespace {

std::atomic<bool> launches_block{false};

FakeGraph& graph_of(void* graph) { return *static_cast<FakeGraph*>(graph); }

}  // namespace

void block_cuda_launches(bool are_blocking) { launches_block = are_blocking; }

extern "C" {

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeStream& stream = FakeDevice::get().stream(handle);
  if (!stream.is_capturing) return cudaErrorIllegalState;  // external records are for graphs
  stream.captured.events.push_back({stream.captured.operations.size(), &event_of(event)});
  stream.captured.operations.push_back([] { return true; });
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeStream& stream = FakeDevice::get().stream(handle);
  stream.is_capturing = true;
  stream.is_capture_broken = false;
  stream.captured = {};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeStream& stream = FakeDevice::get().stream(handle);
  stream.is_capturing = false;
  *graph = nullptr;
  if (stream.is_capture_broken || this_call_fails()) return cudaErrorStreamCaptureInvalidated;
  *graph = reinterpret_cast<cudaGraph_t>(new FakeGraph(std::move(stream.captured)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  *exec = reinterpret_cast<cudaGraphExec_t>(new FakeGraph(graph_of(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete &graph_of(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  use_device();
  delete &graph_of(exec);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const FakeGraph& graph = graph_of(exec);
  auto next = graph.events.begin();
  for (std::size_t i = 0; i < graph.operations.size(); ++i) {
    FakeDevice::get().enqueue(stream, graph.operations[i]);
    const std::scoped_lock lock(FakeDevice::get().mutex());
    const FakeStream& on = FakeDevice::get().stream(stream);
    for (; next != graph.events.end() && next->operation_index == i; ++next) {
      *next->event = {&on, on.end_count()};
    }
  }
  if (launches_block) FakeDevice::get().synchronize(stream);
  return cudaSuccess;
}

}  // extern "C"

}  // namespace ple::test
