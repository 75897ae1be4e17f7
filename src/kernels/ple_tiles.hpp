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
//   embeddings  [block, chunk, block_rows, 128 B]; packed [chunk, 128 B] of one token, where r is
//               the chunk
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
  // Tokens of one block of embeddings in a step of token_capacity tokens.
  static constexpr std::int32_t block_rows(std::int32_t token_capacity) {
    const std::int32_t rows = (token_capacity + 7) / 8 * 8;
    return rows < kMaxBlockRows ? rows : kMaxBlockRows;
  }
  std::size_t embedding_bytes(std::int32_t token_capacity) const {
    const std::int32_t rows = block_rows(token_capacity);
    const std::int32_t blocks = (token_capacity + rows - 1) / rows;
    return std::size_t(blocks) * std::size_t(chunk_count) * std::size_t(rows) * kTileRowBytes;
  }
};

}  // namespace ple::kernels
