#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ple_layer.hpp"

// The two operands of the product as the CUDA kernels lay them out: in tiles that one bulk copy
// brings into shared memory as the matrix instructions want them (K-major, 128-byte swizzle).
//
// A tile row is kChunk elements of the inner dimension, 128 bytes; its 16-byte piece p of row r
// stands at piece p ^ (r % 8).
//   projection  [chunk, group, kGroupColumns rows, 128 B]    group g < stream_count *
//               groups_per_stream: keys of stream g / groups_per_stream; then the value groups
//   embeddings  [block, chunk, rows of the block, 128 B], see TokenRows
//   packed      [chunk, 128 B] of one token, where r is the chunk
// In a group, within each 16 columns, row 8h + 2q + b holds column 4q + 2h + b: a thread of the
// product then owns four neighbouring columns, and reads and writes them as one vector.

namespace ple::kernels {

inline constexpr std::int32_t kChunk = 64;
inline constexpr std::int32_t kTileRowBytes = kChunk * 2;
// Divides the 2560 channels of the released model, and two or three groups are as wide as a tile of
// the product for many tokens can be.
inline constexpr std::int32_t kGroupColumns = 80;
// A slice is what few tokens are split by over the multiprocessors, evenly.
inline constexpr std::int32_t kSliceColumns = 16;
inline constexpr std::int32_t kGroupSlices = kGroupColumns / kSliceColumns;
inline constexpr std::int32_t kSliceTileBytes = kSliceColumns * kTileRowBytes;
inline constexpr std::int32_t kGroupTileBytes = kGroupColumns * kTileRowBytes;
inline constexpr std::int32_t kMaxBlockRows = 128;

// Where the rows of a step's tokens stand. A block has those of kMaxBlockRows tokens, the last one
// of the tokens that are left, in whole eights.
struct TokenRows {
  std::int64_t begin = 0;        // the bytes ahead of a token's row in chunk 0
  std::int64_t chunk_bytes = 0;  // from there to the next chunk's

  constexpr TokenRows(std::int32_t token_capacity, std::int32_t chunk_count, std::int32_t token) {
    const std::int32_t first = token / kMaxBlockRows * kMaxBlockRows;
    const std::int32_t left = (token_capacity - first + 7) / 8 * 8;
    chunk_bytes = std::int64_t{left < kMaxBlockRows ? left : kMaxBlockRows} * kTileRowBytes;
    begin = (std::int64_t{first} * chunk_count + token - first) * kTileRowBytes;
  }
  // The bytes ahead of the token's row in a chunk.
  constexpr std::int64_t at(std::int32_t chunk) const { return begin + chunk * chunk_bytes; }

  // Packed: of one token, without rows between its chunks.
  static constexpr TokenRows of_one() { return TokenRows(0, kTileRowBytes); }

  static constexpr std::size_t bytes(std::int32_t token_capacity, std::int32_t chunk_count) {
    return std::size_t(token_capacity + 7) / 8 * 8 * std::size_t(chunk_count) * kTileRowBytes;
  }

 private:
  constexpr TokenRows(std::int64_t begin_, std::int64_t chunk_bytes_)
      : begin(begin_), chunk_bytes(chunk_bytes_) {}
};

struct PleTiles {
  std::int32_t chunk_count = 0;
  std::int32_t groups_per_stream = 0;
  std::int32_t group_count = 0;  // keys of all streams, then values

  constexpr explicit PleTiles(const PleShape& shape)
      : chunk_count((shape.embed_dim + kChunk - 1) / kChunk),
        groups_per_stream((shape.hidden + kGroupColumns - 1) / kGroupColumns),
        group_count((shape.stream_count + 1) * groups_per_stream) {}

  // Where a group of columns stands in a chunk: those of neighbouring groups follow it.
  constexpr std::int64_t projection_at(std::int32_t chunk, std::int32_t group) const {
    return (std::int64_t{chunk} * group_count + group) * kGroupTileBytes;
  }
  std::size_t projection_bytes() const {
    return std::size_t(group_count) * std::size_t(chunk_count) * kGroupTileBytes;
  }
  constexpr std::int32_t key_group_count() const { return group_count - groups_per_stream; }
};

}  // namespace ple::kernels
