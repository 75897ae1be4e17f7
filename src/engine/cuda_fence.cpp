#include "engine/cuda_fence.hpp"

#include <utility>

#include "base/error.hpp"
#include "device/cuda_device.hpp"

namespace ple {

Result<std::unique_ptr<Fence>> CudaFence::create(std::int32_t device_index,
                                                 const CudaPlacements& placements) {
  std::unique_ptr<CudaFence> fence(new CudaFence(device_index, placements));
  PLE_TRY(fence->reserve(placements.stream()));
  return std::unique_ptr<Fence>(std::move(fence));
}

Result<CudaFence::Mark*> CudaFence::mark_of(void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  std::size_t at = 0;
  while (at < used_count_ && marks_[at].stream != cuda_stream) ++at;
  if (at == marks_.size()) {
    PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
    PLE_TRY_ASSIGN(CudaEvent event, CudaEvent::create());
    marks_.push_back({.event = std::move(event)});
  }
  if (at == used_count_) {
    marks_[at].stream = cuda_stream;
    ++used_count_;
  }
  return &marks_[at];
}

void CudaFence::clear() {
  for (Mark& mark : marks_) mark.is_recorded = false;
  used_count_ = 1;
}

Status CudaFence::record(void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  PLE_TRY_ASSIGN(const bool is_captured, is_capturing(cuda_stream));
  if (is_captured) {
    return error(StatusCode::wrong_state,
                 "a step ends on a stream that is being captured: commit outside of the capture");
  }
  PLE_TRY_ASSIGN(Mark* const mark, mark_of(stream));
  PLE_TRY(mark->event.record(cuda_stream));
  mark->is_recorded = true;
  return {};
}

Status CudaFence::capture(std::size_t run_index, void* stream) {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  while (captured_runs_.size() <= run_index) {
    PLE_TRY_ASSIGN(CudaEvent event, CudaEvent::create());
    captured_runs_.push_back(std::move(event));
  }
  return captured_runs_[run_index].record_in_graph(static_cast<cudaStream_t>(stream));
}

Result<bool> CudaFence::is_passed() {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  for (const CudaEvent& run : captured_runs_) {
    PLE_TRY_ASSIGN(const bool is_done, run.is_done());
    if (!is_done) return false;
  }
  for (const Mark& mark : marks_) {
    if (!mark.is_recorded) continue;
    PLE_TRY_ASSIGN(const bool is_done, mark.event.is_done());
    if (!is_done) return false;
  }
  return true;
}

Status CudaFence::wait() {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  for (const CudaEvent& run : captured_runs_) PLE_TRY(run.synchronize());
  for (const Mark& mark : marks_) {
    if (mark.is_recorded) PLE_TRY(mark.event.synchronize());
  }
  return {};
}

}  // namespace ple
