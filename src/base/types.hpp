#pragma once

#include <cstdint>

namespace ple {

// A token id as the model's tokenizer gives it. kDeadToken marks a position that takes no part
// (an image span, padding): only families that define dead tokens accept it.
using TokenId = std::int32_t;
inline constexpr TokenId kDeadToken = -1;

// A row of a layer's table. Every known table has fewer than 2^32 - 1 rows; larger ones are
// refused when the model is opened.
using RowId = std::uint32_t;
inline constexpr RowId kNoRow = 0xFFFFFFFF;

// A place for a row: an index into the arena, or, from the arena's slot count on, into the step's
// staging area. kZeroSlot: no row at all, the kernels read zeros.
using SlotId = std::uint32_t;
inline constexpr SlotId kZeroSlot = 0xFFFFFFFF;
// The first slot of a place in a captured step where there is no token.
inline constexpr SlotId kNoTokenSlot = 0xFFFFFFFE;

}  // namespace ple
