#pragma once

#include <cstddef>

#include "kernels/ple_tiles.hpp"

// A projection in E4M3 with a scale for each 32x32 block, packed for products on Hopper that take
// their weights from registers:
//
//   codes    [chunk, group, kGroupSlices, kE4m3SliceBytes]    groups as in ple_tiles.hpp
//   factors  [group, kGroupSlices, e4m3_factor_chunks] words
//
// so that whichever slices a block takes, its share of a chunk is one aligned piece: a copy costs
// the same whatever it copies, and more where lines of the memory are cut.
//
// A slice of a chunk is the 16 by 64 matrix that a warp multiplies: for each 32 elements of the
// inner dimension 16 bytes a lane, its fragments of two steps, each in two words of packed_codes:
// rows r and r + 8, first of elements 2q and 2q + 1, then of those 8 further on. A word of factors
// is what the codes of a slice of a chunk are multiplied by, in bf16, for each 32 elements.

namespace ple::kernels {

inline constexpr int kE4m3Block = 32;
inline constexpr int kBlocksPerChunk = kChunk / kE4m3Block;
inline constexpr int kE4m3VectorBytes = 16;
inline constexpr int kE4m3HalfBytes = 32 * kE4m3VectorBytes;
inline constexpr int kE4m3SliceBytes = kBlocksPerChunk * kE4m3HalfBytes;
// The lanes of a warp hold the factors of so many chunks.
inline constexpr int kFactorChunks = 32;

inline constexpr std::int64_t e4m3_chunk_bytes(const PleTiles& tiles) {
  return std::int64_t{tiles.group_count} * kGroupSlices * kE4m3SliceBytes;
}
inline std::size_t e4m3_code_bytes(const PleTiles& tiles) {
  return std::size_t(tiles.chunk_count) * std::size_t(e4m3_chunk_bytes(tiles));
}
inline constexpr int e4m3_factor_chunks(const PleTiles& tiles) {
  return (tiles.chunk_count + kFactorChunks - 1) / kFactorChunks * kFactorChunks;
}
inline std::size_t e4m3_factor_words(const PleTiles& tiles) {
  return std::size_t(tiles.group_count) * kGroupSlices * std::size_t(e4m3_factor_chunks(tiles));
}

}  // namespace ple::kernels
