#include "cache/slot_sets.hpp"

#include <algorithm>
#include <utility>

#include "base/assert.hpp"
#include "cache/find_slots.hpp"

namespace ple {

namespace {

// How far behind the floor a mark's epoch may fall before a sweep, and how many epochs a sweep of
// all sets takes.
constexpr std::uint32_t kSweptAge = 1U << (SlotMark::kEpochBits - 2);
constexpr std::uint64_t kSweepPeriod = std::uint64_t{1} << (SlotMark::kEpochBits - 3);

// What a slot remembers of a row that had to go.
std::uint32_t ghost_of(RowId row) { return (row * 0x9E3779B1U) >> 25; }
static_assert(SlotMark::kGhostCount == 1U << (32 - 25));

}  // namespace

Result<SlotSets> SlotSets::make(std::uint32_t set_count) {
  SlotSets sets(set_count);
  sets.locks_ = std::make_unique<std::array<Lock, kLockCount>>();
  PLE_TRY_ASSIGN(sets.memory_, AlignedBuffer::allocate(set_count * sizeof(SlotSet)));
  for (std::uint32_t index = 0; index < set_count; ++index) {
    for (auto& tag : sets.sets()[index].tags) tag.store(kNoRow, std::memory_order_relaxed);
  }
  return sets;
}

void SlotSets::prefetch(std::span<const RowId> ids) const {
  for (const RowId row : ids.first(std::min(ids.size(), kPrefetchDistance))) {
    prefetch_set(sets()[divisor_.set_of(row)]);
  }
}

void SlotSets::find(const RowId* ids, std::size_t count, std::size_t available,
                    SlotId* slots) const {
  find_slots(sets(), divisor_, ids, count, available, slots);
}

bool SlotSets::join(SlotId slot, RowId row, std::uint32_t epoch, SlotMark seen) {
  std::uint32_t bits = seen.bits();
  const std::uint32_t leased = is_newer(seen.epoch(), epoch) ? bits : seen.with_epoch(epoch).bits();
  return mark_of(slot).compare_exchange_strong(bits, leased, std::memory_order_acq_rel) &&
         tag_of(slot).load(std::memory_order_relaxed) == row;
}

SlotMark SlotSets::mark(SlotId slot) const {
  return SlotMark(sets()[slot / kWayCount].marks[slot % kWayCount].load(std::memory_order_acquire));
}

RowId SlotSets::row(SlotId slot) const {
  return sets()[slot / kWayCount].tags[slot % kWayCount].load(std::memory_order_relaxed);
}

Claim SlotSets::claim(RowId row, std::uint32_t epoch, std::uint32_t floor, std::uint32_t load_index,
                      bool cold_only) {
  const std::uint32_t index = divisor_.set_of(row);
  SlotSet& set = sets()[index];
  for (;;) {
    SetMarks marks;
    for (std::uint32_t way = 0; way < kWayCount; ++way) {
      marks[way] = SlotMark(set.marks[way].load(std::memory_order_acquire));
    }
    const std::int32_t chosen = choose_way(marks, floor, cold_only);
    if (chosen < 0) return {};
    const auto way = static_cast<std::uint32_t>(chosen);
    std::uint32_t seen = marks[way].bits();
    if (!set.marks[way].compare_exchange_strong(seen, SlotMark::empty(epoch, 0).bits(),
                                                std::memory_order_acq_rel)) {
      continue;  // a step leased it first
    }
    const RowId evicted_row = set.tags[way].load(std::memory_order_relaxed);
    const bool evicted = evicted_row != kNoRow;
    set.tags[way].store(row, std::memory_order_relaxed);
    set.marks[way].store(SlotMark::loading(epoch, load_index).bits(), std::memory_order_release);
    return {.slot = index * kWayCount + way,
            .use = initial_use(marks, ghost_of(row)),
            .ghost = evicted ? ghost_of(evicted_row) : marks[way].ghost(),
            .evicted = evicted};
  }
}

void SlotSets::publish(const Claim& claim, bool prefetched) {
  std::atomic<std::uint32_t>& mark = mark_of(claim.slot);
  std::uint32_t bits = mark.load(std::memory_order_relaxed);
  std::uint32_t ready = 0;
  do {
    PLE_ASSERT(SlotMark(bits).state() == SlotState::loading);
    ready = SlotMark::ready(SlotMark(bits).epoch(), claim.use, prefetched, claim.ghost).bits();
  } while (!mark.compare_exchange_weak(bits, ready, std::memory_order_acq_rel));
}

void SlotSets::abandon(const Claim& claim) {
  std::atomic<std::uint32_t>& mark = mark_of(claim.slot);
  std::uint32_t bits = mark.load(std::memory_order_relaxed);
  PLE_ASSERT(SlotMark(bits).state() == SlotState::loading);
  tag_of(claim.slot).store(kNoRow, std::memory_order_release);
  while (!mark.compare_exchange_weak(bits,
                                     SlotMark::empty(SlotMark(bits).epoch(), claim.ghost).bits(),
                                     std::memory_order_acq_rel)) {
  }
}

void SlotSets::sweep(std::uint64_t epoch, std::uint64_t floor) {
  const std::uint64_t slice = epoch % kSweepPeriod;
  const std::uint64_t begin = slice * set_count_ / kSweepPeriod;
  const std::uint64_t end = (slice + 1) * set_count_ / kSweepPeriod;
  const std::uint32_t now = short_epoch(floor);
  for (std::uint64_t index = begin; index < end; ++index) {
    for (auto& mark : sets()[index].marks) {
      std::uint32_t bits = mark.load(std::memory_order_relaxed);
      for (;;) {
        const std::uint32_t epoch_seen = SlotMark(bits).epoch();
        const std::uint32_t age = (now - epoch_seen) & SlotMark::kEpochMask;
        if (is_newer(epoch_seen, now) || age <= kSweptAge) break;
        const SlotMark drawn = SlotMark(bits).with_epoch((now - kSweptAge) & SlotMark::kEpochMask);
        if (mark.compare_exchange_weak(bits, drawn.bits(), std::memory_order_acq_rel)) break;
      }
    }
  }
}

}  // namespace ple
