#pragma once

#include <cstddef>

namespace ple::kernels {

// Hands out the parts of one piece of memory, in order.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}
  template <class T>
  T* take(std::size_t count) {
    T* part = reinterpret_cast<T*>(base_ + used_);
    used_ += (count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
    return part;
  }
  std::size_t used() const { return used_; }

 private:
  static constexpr std::size_t kAlignment = 256;
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace ple::kernels
