#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "cache/slot_set.hpp"

namespace ple {

inline constexpr SlotId kNoSlot = 0xFFFFFFFF;

// Two cache misses a lookup: enough ids in flight to hide the memory's latency.
inline constexpr std::size_t kPrefetchDistance = 56;

// Starts fetching both lines of a set.
inline void prefetch_set(const SlotSet& set) {
  __builtin_prefetch(set.tags.data(), 0);
  __builtin_prefetch(set.marks.data(), 1);
}

// Looks ids[0..count) up: slots[i] is the slot whose tag names the row, or kNoSlot. The answer is
// a guess while other threads replace rows: the lease checks it. The lines of both kinds that
// later ids need are fetched ahead, as far as the ids are there: available >= count.
void find_slots(const SlotSet* sets, SetDivisor divisor, const RowId* ids, std::size_t count,
                std::size_t available, SlotId* slots);

}  // namespace ple
