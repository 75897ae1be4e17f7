#pragma once

#include <cstdint>

namespace ple {

// How the ways of a set are told apart.
inline constexpr std::uint32_t kWayCount = 16;

enum class SlotState : std::uint32_t {
  empty = 0,    // holds no row
  loading = 1,  // a read into it is in flight, or its row is not placed on the device yet
  ready = 2,    // holds the row that its tag names
};

// The 4 bytes of state of one slot, changed by compare and swap:
//
//   bits 31..12  epoch of the latest step that uses the slot
//   bits 11..10  state
//   bits  9..0   loading: the load that fills it. Else what replacement knows:
//                use count (2 bits), prefetched (1 bit), ghost (7 bits)
//
// The ghost is a fingerprint of the row that the slot held before: a row that is asked for again
// soon after its eviction is known to be worth keeping.
class SlotMark {
 public:
  static constexpr std::uint32_t kEpochBits = 20;
  static constexpr std::uint32_t kEpochMask = (1U << kEpochBits) - 1;
  static constexpr std::uint32_t kLoadIndexCount = 1024;
  static constexpr std::uint32_t kUseMax = 3;
  static constexpr std::uint32_t kGhostCount = 128;

  constexpr SlotMark() = default;
  explicit constexpr SlotMark(std::uint32_t bits) : bits_(bits) {}

  static constexpr SlotMark empty(std::uint32_t epoch, std::uint32_t ghost) {
    return SlotMark(epoch << kEpochShift | ghost << kGhostShift);
  }
  static constexpr SlotMark loading(std::uint32_t epoch, std::uint32_t load_index) {
    return SlotMark(epoch << kEpochShift | 1U << kStateShift | load_index);
  }
  static constexpr SlotMark ready(std::uint32_t epoch, std::uint32_t use, bool prefetched,
                                  std::uint32_t ghost) {
    return SlotMark(epoch << kEpochShift | 2U << kStateShift | ghost << kGhostShift |
                    (prefetched ? kPrefetchedBit : 0U) | use);
  }

  constexpr std::uint32_t bits() const { return bits_; }
  constexpr std::uint32_t epoch() const { return bits_ >> kEpochShift; }
  constexpr SlotState state() const { return static_cast<SlotState>(bits_ >> kStateShift & 3); }
  constexpr std::uint32_t load_index() const { return bits_ & (kLoadIndexCount - 1); }
  constexpr std::uint32_t use() const { return bits_ & kUseMax; }
  constexpr std::uint32_t ghost() const { return bits_ >> kGhostShift & (kGhostCount - 1); }

  constexpr SlotMark with_epoch(std::uint32_t epoch) const {
    return SlotMark((bits_ & ((1U << kEpochShift) - 1)) | epoch << kEpochShift);
  }
  // A ready slot used by a step. The first use of a row that was prefetched is no second use.
  constexpr SlotMark used(std::uint32_t epoch) const {
    const std::uint32_t counted = bits_ & kPrefetchedBit ? bits_ ^ kPrefetchedBit
                                  : use() < kUseMax      ? bits_ + 1
                                                         : bits_;
    return SlotMark(counted).with_epoch(epoch);
  }

 private:
  static constexpr std::uint32_t kEpochShift = 12;
  static constexpr std::uint32_t kStateShift = 10;
  static constexpr std::uint32_t kGhostShift = 3;
  static constexpr std::uint32_t kPrefetchedBit = 1U << 2;

  std::uint32_t bits_ = 0;
};

// Epochs in marks are the low bits of a counter. One is newer than another if it is less than half
// the range ahead; marks are swept before they could fall that far behind (SlotSets::sweep).
constexpr std::uint32_t short_epoch(std::uint64_t epoch) {
  return static_cast<std::uint32_t>(epoch) & SlotMark::kEpochMask;
}
constexpr bool is_newer(std::uint32_t epoch, std::uint32_t than) {
  const std::uint32_t ahead = (epoch - than) & SlotMark::kEpochMask;
  return ahead != 0 && ahead < (SlotMark::kEpochMask + 1) / 2;
}

static_assert(sizeof(SlotMark) == 4);
static_assert(SlotMark::ready(7, 1, true, 5).used(9).use() == 1);
static_assert(SlotMark::ready(7, 1, false, 5).used(9).use() == 2);
static_assert(SlotMark::ready(7, 3, false, 5).used(9).epoch() == 9);
static_assert(is_newer(0, SlotMark::kEpochMask) && !is_newer(SlotMark::kEpochMask, 0));

}  // namespace ple
