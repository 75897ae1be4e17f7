#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/error.hpp"

namespace ple {

// Owns host memory at a given alignment. Large buffers are advised to use huge pages. The bytes
// are zero until written.
class AlignedBuffer {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  static Result<AlignedBuffer> allocate(std::size_t bytes, std::size_t alignment = kPageBytes);

  AlignedBuffer() = default;

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::size_t bytes() const { return bytes_; }
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data_.get());
  }
  template <class T>
  const T* as() const {
    return reinterpret_cast<const T*>(data_.get());
  }

 private:
  // Unmaps (large buffers are anonymous maps, so that they are returned to the system and zero).
  struct Free {
    std::size_t mapped_bytes;
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t bytes_ = 0;
};

}  // namespace ple
