#pragma once

#include <array>
#include <cstdint>

#include "cache/slot_mark.hpp"

namespace ple {

using SetMarks = std::array<SlotMark, kWayCount>;

// Which of a set's ways a new row may overwrite: an empty one, else the one whose row is missed
// least; -1 if every way is leased (its epoch newer than floor) or loading.
//
// Rows used in a single step so far are strangers. While more than kStrangersMax ways hold
// strangers, a stranger has to go, the one unused for longest: so a scan replaces itself, and what
// was used again stays. Otherwise one of the others goes, the one with the greatest age, where each
// use halves the age. cold_only spares rows that were used again.
std::int32_t choose_way(const SetMarks& marks, std::uint32_t floor, bool cold_only);

// The use count that a row starts with: a row that one of the ghosts remembers is no stranger.
std::uint32_t initial_use(const SetMarks& marks, std::uint32_t ghost);

}  // namespace ple
