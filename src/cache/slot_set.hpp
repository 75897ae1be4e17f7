#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <limits>

#include "base/types.hpp"
#include "cache/slot_mark.hpp"

namespace ple {

// The metadata of 16 slots: two cache lines, 8 bytes a slot.
struct alignas(128) SlotSet {
  std::array<std::atomic<RowId>, kWayCount> tags;           // kNoRow: the way holds no row
  std::array<std::atomic<std::uint32_t>, kWayCount> marks;  // bits of a SlotMark
};
static_assert(sizeof(SlotSet) == std::size_t{8} * kWayCount);
static_assert(sizeof(std::atomic<std::uint32_t>) == 4);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

// row % set_count without a division. Row ids are hashes already, so the remainder spreads them;
// and a cache as large as the table has a slot for every row.
class SetDivisor {
 public:
  explicit SetDivisor(std::uint32_t set_count)
      : reciprocal_(set_count == 0 ? 0 : std::numeric_limits<std::uint64_t>::max() / set_count + 1),
        set_count_(set_count) {}

  // Exact for every 32-bit row (Lemire, Kaser, Kurz: Faster remainder by direct computation).
  std::uint32_t set_of(RowId row) const {
    const std::uint64_t fraction = reciprocal_ * row;
    return static_cast<std::uint32_t>(static_cast<unsigned __int128>(fraction) * set_count_ >> 64);
  }

 private:
  std::uint64_t reciprocal_;
  std::uint64_t set_count_;
};

}  // namespace ple
