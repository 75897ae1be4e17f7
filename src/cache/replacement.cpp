#include "cache/replacement.hpp"

namespace ple {

namespace {

constexpr int kStrangersMax = 3;

// Whether a mark may be overwritten.
bool is_free(SlotMark mark, std::uint32_t floor) {
  return mark.state() != SlotState::loading && !is_newer(mark.epoch(), floor);
}

}  // namespace

std::int32_t choose_way(const SetMarks& marks, std::uint32_t floor, bool cold_only) {
  int stranger_count = 0;
  std::int32_t oldest_stranger = -1;
  std::int32_t oldest_known = -1;
  std::uint32_t stranger_age = 0;
  std::uint32_t known_age = 0;
  for (std::int32_t way = 0; way < static_cast<std::int32_t>(kWayCount); ++way) {
    const SlotMark mark = marks[static_cast<std::size_t>(way)];
    const bool is_stranger = mark.state() == SlotState::loading || mark.use() == 0;
    if (is_stranger) ++stranger_count;
    if (!is_free(mark, floor)) continue;
    if (mark.state() == SlotState::empty) return way;
    const std::uint32_t age = ((floor - mark.epoch()) & SlotMark::kEpochMask) + 1;
    if (is_stranger && age > stranger_age) {
      stranger_age = age;
      oldest_stranger = way;
    }
    // Shifted up, so that the age of one step can be halved.
    const std::uint32_t halved_age = age << SlotMark::kUseMax >> mark.use();
    if (!is_stranger && halved_age > known_age) {
      known_age = halved_age;
      oldest_known = way;
    }
  }
  if (cold_only) return oldest_stranger;
  const bool prefers_stranger = stranger_count > kStrangersMax || oldest_known < 0;
  return prefers_stranger && oldest_stranger >= 0 ? oldest_stranger : oldest_known;
}

std::uint32_t initial_use(const SetMarks& marks, std::uint32_t ghost) {
  for (const SlotMark mark : marks) {
    if (mark.state() == SlotState::ready && mark.ghost() == ghost) return 1;
  }
  return 0;
}

}  // namespace ple
