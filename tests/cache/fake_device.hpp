#pragma once

#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cache/cache_support.hpp"
#include "cache/row_cache.hpp"

namespace ple::test {

// Memory that only the device sees; a test reads it by the kernels' address.
class FakeDeviceMemory final : public SlotMemory {
 public:
  explicit FakeDeviceMemory(std::size_t bytes) : memory_(bytes, std::byte{0xDD}) {}

  static Result<std::unique_ptr<SlotMemory>> make(std::size_t bytes) {
    return std::unique_ptr<SlotMemory>(std::make_unique<FakeDeviceMemory>(bytes));
  }

  std::byte* host_address() override { return nullptr; }
  std::byte* kernel_address() override { return memory_.data(); }
  std::size_t bytes() const override { return memory_.size(); }
  Status upload(std::size_t offset, std::span<const std::byte> source) override {
    std::memcpy(memory_.data() + offset, source.data(), source.size());
    return {};
  }

 private:
  std::vector<std::byte> memory_;
};

// A placement stream that copies as late as it may: when somebody waits for its latest event.
class FakePlacementStream final : public PlacementSink {
 public:
  Status enqueue(const RowView& view, const std::byte* landing,
                 std::span<const Placement> placements) override {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(fail_next_, false)) return {StatusCode::device_error, "copy refused"};
    for (const Placement& placement : placements) {
      copies_.push_back({const_cast<std::byte*>(address_of(view, placement.slot)),
                         landing + std::size_t{placement.landing_index} * view.slot_bytes,
                         view.slot_bytes});
    }
    return {};
  }

  void wait_for_latest_event() {
    const std::scoped_lock lock(mutex_);
    for (const Copy& copy : copies_) std::memcpy(copy.destination, copy.source, copy.bytes);
    copies_.clear();
  }

  std::size_t copy_count() const {
    const std::scoped_lock lock(mutex_);
    return copies_.size();
  }
  void fail_next() { fail_next_ = true; }

 private:
  struct Copy {
    std::byte* destination;
    const std::byte* source;
    std::size_t bytes;
  };
  mutable std::mutex mutex_;
  std::deque<Copy> copies_;
  bool fail_next_ = false;
};

inline RowCacheOptions device_options() { return {.slot_memory = FakeDeviceMemory::make}; }

}  // namespace ple::test
