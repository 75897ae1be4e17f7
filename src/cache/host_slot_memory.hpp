#pragma once

#include <cstring>
#include <utility>

#include "cache/row_cache.hpp"

namespace ple {

// Memory that the host and the kernels see at one address; Buffer owns it.
template <class Buffer>
class HostSlotMemory final : public SlotMemory {
 public:
  explicit HostSlotMemory(Buffer buffer) : buffer_(std::move(buffer)) {}

  std::byte* host_address() override { return buffer_.data(); }
  std::byte* kernel_address() override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }
  Status upload(std::size_t offset, std::span<const std::byte> source) override {
    std::memcpy(buffer_.data() + offset, source.data(), source.size());
    return {};
  }

 private:
  Buffer buffer_;
};

}  // namespace ple
