#pragma once

#include <array>
#include <cstdint>

#include "cache/slot_mark.hpp"

namespace ple {

// What to do for a row that needs a slot of a full set.
struct Replacement {
  std::int32_t way = -1;        // to overwrite; none if every way is leased
  std::uint32_t aged_ways = 0;  // bit w: way w, passed over, forgets one use
};

using SetMarks = std::array<SlotMark, kWayCount>;

// Chooses among the ways whose lease has retired (epoch not newer than floor) and that are not
// loading: an empty one, else among the rows used once the one that was used longest ago, else
// among all. cold_only spares the rows used more than once.
Replacement choose_way(const SetMarks& marks, std::uint32_t floor, bool cold_only);

// The use count that a row starts with: a row that one of the ghosts remembers is not a stranger.
std::uint32_t initial_use(const SetMarks& marks, std::uint32_t ghost);

}  // namespace ple
