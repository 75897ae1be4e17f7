#include "cache/replacement.hpp"

namespace ple {

namespace {

// Whether a mark may be overwritten once its lease has retired.
bool is_evictable(SlotMark mark, std::uint32_t floor) {
  return mark.state() != SlotState::loading && !is_newer(mark.epoch(), floor);
}

}  // namespace

Replacement choose_way(const SetMarks& marks, std::uint32_t floor, bool cold_only) {
  Replacement chosen;
  std::uint32_t chosen_rank = 0xFFFFFFFF;
  std::uint32_t evictable_ways = 0;
  for (std::uint32_t way = 0; way < kWayCount; ++way) {
    const SlotMark mark = marks[way];
    if (!is_evictable(mark, floor)) continue;
    if (mark.state() == SlotState::empty) return {static_cast<std::int32_t>(way), 0};
    if (cold_only && mark.use() > 0) continue;
    evictable_ways |= 1U << way;
    // Fewest uses first, then the oldest.
    const std::uint32_t age = (floor - mark.epoch()) & SlotMark::kEpochMask;
    const std::uint32_t rank = mark.use() << SlotMark::kEpochBits | (SlotMark::kEpochMask - age);
    if (rank < chosen_rank) {
      chosen_rank = rank;
      chosen.way = static_cast<std::int32_t>(way);
    }
  }
  // Nobody was a stranger: all that were considered come one step closer to being one.
  if (chosen.way >= 0 && marks[static_cast<std::size_t>(chosen.way)].use() > 0) {
    chosen.aged_ways = evictable_ways & ~(1U << chosen.way);
  }
  return chosen;
}

std::uint32_t initial_use(const SetMarks& marks, std::uint32_t ghost) {
  for (const SlotMark mark : marks) {
    if (mark.state() == SlotState::ready && mark.ghost() == ghost) return 1;
  }
  return 0;
}

}  // namespace ple
