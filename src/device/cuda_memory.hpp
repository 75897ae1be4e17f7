#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/status.hpp"

namespace ple {

// Owns device memory of the device that was current at allocate(). Freeing it waits for the device
// (cudaFree does), so no kernel can still read it.
class DeviceBuffer {
 public:
  static Result<DeviceBuffer> allocate(std::size_t bytes);
  DeviceBuffer() = default;
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  ~DeviceBuffer() { release(); }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void release();
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::int32_t device_index_ = 0;
};

// Owns page-locked host memory that every device reads and writes at the same address.
class PinnedBuffer {
 public:
  static Result<PinnedBuffer> allocate(std::size_t bytes);
  PinnedBuffer() = default;
  PinnedBuffer(PinnedBuffer&& other) noexcept { *this = std::move(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept;
  ~PinnedBuffer() { release(); }

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void release();
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::int32_t device_index_ = 0;
};

// Enqueues a copy; the direction follows from the addresses. Host memory must be pinned for the
// copy to be asynchronous, and must be pinned under capture.
Status copy_async(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

}  // namespace ple
