#include <cstring>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "cache/row_cache.hpp"

namespace ple {

namespace {

class HostSlotMemory final : public SlotMemory {
 public:
  explicit HostSlotMemory(AlignedBuffer buffer) : buffer_(std::move(buffer)) {}

  std::byte* host_address() override { return buffer_.data(); }
  std::byte* kernel_address() override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }
  Status upload(std::size_t offset, std::span<const std::byte> source) override {
    std::memcpy(buffer_.data() + offset, source.data(), source.size());
    return {};
  }

 private:
  AlignedBuffer buffer_;
};

}  // namespace

Result<std::unique_ptr<SlotMemory>> make_host_slot_memory(std::size_t bytes) {
  PLE_TRY_ASSIGN(AlignedBuffer buffer, AlignedBuffer::allocate(bytes));
  return std::unique_ptr<SlotMemory>(std::make_unique<HostSlotMemory>(std::move(buffer)));
}

}  // namespace ple
