#pragma once

#include <cstddef>

#include "kernels/ple_tiles.hpp"

// A projection in E4M3 with a scale for each 32x32 block, packed for products on Hopper that take
// their weights from registers:
//
//   [chunk, group, kGroupSlices, kE4m3SliceBytes]    groups as in ple_tiles.hpp
//
// so that whichever slices a block takes, its share of a chunk is one piece: a copy costs the same
// whatever it copies.
//
// A slice of a chunk is the 16 by 64 matrix that a warp multiplies: for each 32 elements of the
// inner dimension 16 bytes a lane; then, for each 32, what their codes are multiplied by, twice in
// bf16; then padding. A lane's 16 bytes are its fragments of two steps, each in two words of
// packed_codes: rows r and r + 8, first of elements 2q and 2q + 1, then of those 8 further on.

namespace ple::kernels {

inline constexpr int kE4m3Block = 32;
inline constexpr int kBlocksPerChunk = kChunk / kE4m3Block;
inline constexpr int kE4m3VectorBytes = 16;
inline constexpr int kE4m3HalfBytes = 32 * kE4m3VectorBytes;
inline constexpr int kE4m3SliceBytes = kBlocksPerChunk * kE4m3HalfBytes + 16;

inline constexpr std::int64_t e4m3_chunk_bytes(const PleTiles& tiles) {
  return std::int64_t{tiles.group_count} * kGroupSlices * kE4m3SliceBytes;
}
inline std::size_t e4m3_projection_bytes(const PleTiles& tiles) {
  return std::size_t(tiles.chunk_count) * std::size_t(e4m3_chunk_bytes(tiles));
}

}  // namespace ple::kernels
