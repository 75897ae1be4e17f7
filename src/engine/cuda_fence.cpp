#include "engine/cuda_fence.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "device/cuda_device.hpp"

namespace ple {

Status CudaFence::record(void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  PLE_TRY_ASSIGN(const bool is_captured, is_capturing(cuda_stream));
  if (is_captured) {
    return error(StatusCode::wrong_state,
                 "a step ends on a stream that is being captured: commit outside of the capture");
  }
  std::size_t at = 0;
  while (at < recorded_count_ && marks_[at].stream != cuda_stream) ++at;
  if (at == marks_.size()) {
    PLE_TRY_ASSIGN(CudaEvent event, CudaEvent::create());
    marks_.push_back({nullptr, std::move(event)});
  }
  PLE_TRY(marks_[at].event.record(cuda_stream));
  marks_[at].stream = cuda_stream;
  recorded_count_ = std::max(recorded_count_, at + 1);
  return {};
}

Result<bool> CudaFence::is_passed() {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  for (std::size_t i = 0; i < recorded_count_; ++i) {
    PLE_TRY_ASSIGN(const bool is_done, marks_[i].event.is_done());
    if (!is_done) return false;
  }
  return true;
}

Status CudaFence::wait() {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  for (std::size_t i = 0; i < recorded_count_; ++i) PLE_TRY(marks_[i].event.synchronize());
  return {};
}

}  // namespace ple
