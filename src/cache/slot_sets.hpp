#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/mutex.hpp"
#include "base/types.hpp"
#include "cache/replacement.hpp"
#include "cache/slot_set.hpp"

namespace ple {

// How a slot was found by a step with a given epoch.
enum class Lease {
  fresh,     // leased now
  repeated,  // leased by this step before
  shared,    // leased by a later step, which protects it as well; whether by this one is not known
  loading,   // on its way for somebody else: not leased, to be joined
  lost,      // not the row's slot any more
};

// A way taken for a row, and what must be remembered until the row is there.
struct Claim {
  SlotId slot = kZeroSlot;  // kZeroSlot: every way is leased
  std::uint32_t use = 0;
  std::uint32_t ghost = 0;
  bool evicted = false;  // a row had to go
};

// The sets of a cache: which row lies in which slot, who uses it, who may overwrite it.
//
// A tag changes only between a claim and its publish or abandon, and a slot is claimed only when
// its epoch has retired. A claim first swaps the mark to empty, then writes the tag, then marks the
// slot loading; so whoever sees a mark that is not empty and then reads the tag, and whose own
// swap of the mark succeeds, has the row's slot. Leases take no lock. Claims in a set exclude each
// other by the set's lock (lock_of), under which a row must be looked up again before it is
// claimed: a row has at most one slot.
class SlotSets {
 public:
  static Result<SlotSets> make(std::uint32_t set_count);

  std::uint32_t slot_count() const { return set_count_ * kWayCount; }

  // Fetches the lines that the first lookups of a step need; find fetches those that follow.
  void prefetch(std::span<const RowId> ids) const;

  // See find_slots.
  void find(const RowId* ids, std::size_t count, std::size_t available, SlotId* slots) const;

  // Leases a slot that find gave for row.
  Lease lease(SlotId slot, RowId row, std::uint32_t epoch);

  // Leases a loading slot if the load that its mark named when it was seen still fills it with row.
  bool join(SlotId slot, RowId row, std::uint32_t epoch, SlotMark seen);

  SlotMark mark(SlotId slot) const;
  RowId row(SlotId slot) const;

  Mutex& lock_of(RowId row) { return (*locks_)[divisor_.set_of(row) % kLockCount].mutex; }

  // Takes a way of the row's set for a load, with the row's lock held.
  Claim claim(RowId row, std::uint32_t epoch, std::uint32_t floor, std::uint32_t load_index,
              bool cold_only);

  // The row of a claim is there, or will not come: the slot is ready, or empty again.
  void publish(const Claim& claim, bool prefetched);
  void abandon(const Claim& claim);

  // Draws near the epochs of all marks, a slice per retired epoch, before they could be mistaken
  // for newer ones.
  void sweep(std::uint64_t epoch, std::uint64_t floor);

 private:
  static constexpr std::size_t kLockCount = 256;
  struct alignas(64) Lock {
    Mutex mutex;
  };

  explicit SlotSets(std::uint32_t set_count) : set_count_(set_count), divisor_(set_count) {}

  SlotSet* sets() { return memory_.as<SlotSet>(); }
  const SlotSet* sets() const { return memory_.as<SlotSet>(); }
  std::atomic<std::uint32_t>& mark_of(SlotId slot) {
    return sets()[slot / kWayCount].marks[slot % kWayCount];
  }
  std::atomic<RowId>& tag_of(SlotId slot) {
    return sets()[slot / kWayCount].tags[slot % kWayCount];
  }

  std::uint32_t set_count_;
  SetDivisor divisor_;
  AlignedBuffer memory_;  // [set_count] SlotSet
  std::unique_ptr<std::array<Lock, kLockCount>> locks_;
};

inline Lease SlotSets::lease(SlotId slot, RowId row, std::uint32_t epoch) {
  std::atomic<std::uint32_t>& mark = mark_of(slot);
  const std::atomic<RowId>& tag = tag_of(slot);
  std::uint32_t bits = mark.load(std::memory_order_acquire);
  for (;;) {
    const SlotMark seen(bits);
    if (seen.state() == SlotState::empty || tag.load(std::memory_order_relaxed) != row) {
      return Lease::lost;
    }
    if (seen.epoch() == epoch) return Lease::repeated;
    if (seen.state() == SlotState::loading) return Lease::loading;
    if (is_newer(seen.epoch(), epoch)) return Lease::shared;
    if (mark.compare_exchange_weak(bits, seen.used(epoch).bits(), std::memory_order_acq_rel,
                                   std::memory_order_acquire)) {
      return tag.load(std::memory_order_relaxed) == row ? Lease::fresh : Lease::lost;
    }
  }
}

}  // namespace ple
