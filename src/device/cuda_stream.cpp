#include "device/cuda_stream.hpp"

#include "device/cuda_check.hpp"
#include "device/cuda_device.hpp"

namespace ple {

Result<CudaStream> CudaStream::create() {
  CudaStream stream;
  PLE_TRY_ASSIGN(stream.device_index_, current_cuda_device());
  PLE_CUDA_TRY(cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking));
  return stream;
}

Result<CudaStream> CudaStream::create_preferred() {
  int least = 0;
  int most = 0;
  PLE_CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &most));
  CudaStream stream;
  PLE_TRY_ASSIGN(stream.device_index_, current_cuda_device());
  PLE_CUDA_TRY(cudaStreamCreateWithPriority(&stream.stream_, cudaStreamNonBlocking, most));
  return stream;
}

CudaStream& CudaStream::operator=(CudaStream&& other) noexcept {
  if (this == &other) return *this;
  release();
  stream_ = std::exchange(other.stream_, nullptr);
  device_index_ = other.device_index_;
  return *this;
}

void CudaStream::release() {
  if (stream_ == nullptr) return;
  const auto scope = CudaScope::enter(device_index_);
  (void)cudaStreamDestroy(stream_);
}

Status CudaStream::synchronize() const {
  PLE_CUDA_TRY(cudaStreamSynchronize(stream_));
  return {};
}

Result<CudaEvent> CudaEvent::create() {
  CudaEvent event;
  PLE_TRY_ASSIGN(event.device_index_, current_cuda_device());
  PLE_CUDA_TRY(cudaEventCreateWithFlags(&event.event_, cudaEventDisableTiming));
  return event;
}

CudaEvent& CudaEvent::operator=(CudaEvent&& other) noexcept {
  if (this == &other) return *this;
  release();
  event_ = std::exchange(other.event_, nullptr);
  device_index_ = other.device_index_;
  return *this;
}

void CudaEvent::release() {
  if (event_ == nullptr) return;
  const auto scope = CudaScope::enter(device_index_);
  (void)cudaEventDestroy(event_);
}

Status CudaEvent::record(cudaStream_t stream) const {
  PLE_CUDA_TRY(cudaEventRecord(event_, stream));
  return {};
}

Status CudaEvent::record_in_graph(cudaStream_t stream) const {
  PLE_CUDA_TRY(cudaEventRecordWithFlags(event_, stream, cudaEventRecordExternal));
  return {};
}

Status CudaEvent::wait_on(cudaStream_t stream) const {
  PLE_CUDA_TRY(cudaStreamWaitEvent(stream, event_, 0));
  return {};
}

Result<bool> CudaEvent::is_done() const {
  const cudaError_t code = cudaEventQuery(event_);
  if (code == cudaErrorNotReady) return false;
  PLE_CUDA_TRY(code);
  return true;
}

Status CudaEvent::synchronize() const {
  PLE_CUDA_TRY(cudaEventSynchronize(event_));
  return {};
}

Result<bool> is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  PLE_CUDA_TRY(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace ple
