#include "device/cuda_memory.hpp"

#include "base/error.hpp"
#include "device/cuda_check.hpp"
#include "device/cuda_device.hpp"

namespace ple {

namespace {

// On the memory's own device, since a call makes the context of the current one; and while a stream
// is being captured too, which is legal since it is not part of it.
template <class Free>
void free_on(std::int32_t device_index, void* data, Free free) {
  if (data == nullptr) return;
  const auto scope = CudaScope::enter(device_index);
  (void)free(data);  // fails only where the driver is already gone
}

}  // namespace

Result<DeviceBuffer> DeviceBuffer::allocate(std::size_t bytes) {
  DeviceBuffer buffer;
  PLE_TRY_ASSIGN(buffer.device_index_, current_cuda_device());
  void* data = nullptr;
  if (bytes != 0) {
    const cudaError_t code = cudaMalloc(&data, bytes);
    if (code != cudaSuccess) {
      (void)cudaGetLastError();
      return error(StatusCode::out_of_memory, "CUDA: {} bytes of device memory: {}", bytes,
                   cudaGetErrorString(code));
    }
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  device_index_ = other.device_index_;
  return *this;
}

void DeviceBuffer::release() { free_on(device_index_, data_, cudaFree); }

Result<PinnedBuffer> PinnedBuffer::allocate(std::size_t bytes) {
  PinnedBuffer buffer;
  PLE_TRY_ASSIGN(buffer.device_index_, current_cuda_device());
  void* data = nullptr;
  if (bytes != 0) {
    const cudaError_t code =
        cudaHostAlloc(&data, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
    if (code != cudaSuccess) {
      (void)cudaGetLastError();
      return error(StatusCode::out_of_memory, "CUDA: {} bytes of pinned host memory: {}", bytes,
                   cudaGetErrorString(code));
    }
  }
  buffer.data_ = static_cast<std::byte*>(data);
  buffer.bytes_ = bytes;
  return buffer;
}

PinnedBuffer& PinnedBuffer::operator=(PinnedBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  device_index_ = other.device_index_;
  return *this;
}

void PinnedBuffer::release() { free_on(device_index_, data_, cudaFreeHost); }

Status copy_async(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return {};
  PLE_CUDA_TRY(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  return {};
}

}  // namespace ple
