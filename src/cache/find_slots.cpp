#include "cache/find_slots.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cache/find_slots.cpp"
#include <hwy/foreach_target.h>  // compiles this file once per instruction set
#include <hwy/highway.h>

// This file is compiled without the thread sanitizer: a vector of tags is read at once while other
// threads store single ones. Each lane is whole, and what is found is checked when it is leased.

HWY_BEFORE_NAMESPACE();
namespace ple {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// The way whose tag is row, or -1.
HWY_INLINE std::intptr_t find_way(const SlotSet& set, RowId row) {
  const hn::CappedTag<std::uint32_t, kWayCount> d;
  const auto* tags = reinterpret_cast<const std::uint32_t*>(set.tags.data());
  const auto wanted = hn::Set(d, row);
  for (std::size_t way = 0; way < kWayCount; way += hn::Lanes(d)) {
    const std::intptr_t lane = hn::FindFirstTrue(d, hn::Eq(hn::Load(d, tags + way), wanted));
    if (lane >= 0) return static_cast<std::intptr_t>(way) + lane;
  }
  return -1;
}

void find_slots(const SlotSet* sets, SetDivisor divisor, const RowId* ids, std::size_t count,
                std::size_t available, SlotId* slots) {
  for (std::size_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < available) {
      prefetch_set(sets[divisor.set_of(ids[i + kPrefetchDistance])]);
    }
    const std::uint32_t set = divisor.set_of(ids[i]);
    const std::intptr_t way = find_way(sets[set], ids[i]);
    slots[i] = way < 0 ? kNoSlot : set * kWayCount + static_cast<std::uint32_t>(way);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace ple
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple {

HWY_EXPORT(find_slots);

void find_slots(const SlotSet* sets, SetDivisor divisor, const RowId* ids, std::size_t count,
                std::size_t available, SlotId* slots) {
  HWY_DYNAMIC_DISPATCH(find_slots)(sets, divisor, ids, count, available, slots);
}

}  // namespace ple
#endif
