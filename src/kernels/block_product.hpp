#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/ple_tiles.hpp"

// Products whose inner dimension falls into blocks: for a token t and a column c
//   total = first + sum over the chains of (sum over the chain's chunks of x_k . W_k)
// where a chain is a run of chunks, those of one block where a product rounds each: then its sum
// and the total are rounded to bf16. The sum of a chain is made in steps of 16 in one f32
// accumulator, so the bits of a token do not depend on which multiprocessor has which chain, nor on
// the other tokens of the step.
//
// Both operands lie in tiles of chunks as in ple_tiles.hpp; a block begins at a whole chunk:
//   weights  [weight block, chunk, panel, kPanelColumns rows, 128 B], columns in the same order
//            within each 16; neighbouring panels are one copy
//   x        see TokenRows; its chunks are those of all blocks

namespace ple::kernels {

inline constexpr std::int32_t kPanelColumns = 96;
inline constexpr std::int32_t kPanelTileBytes = kPanelColumns * kTileRowBytes;

struct BlockTiles {
  std::int32_t column_count = 0;
  std::int32_t block_dim = 0;           // elements of a block
  std::int32_t block_count = 0;         // of x
  std::int32_t weight_block_count = 0;  // block b of x meets weight block b % weight_block_count
  std::int32_t chain_chunks = 1;

  // Even, so that two make a wide tile; zeros behind the columns.
  constexpr std::int32_t panel_count() const {
    return (column_count + 2 * kPanelColumns - 1) / (2 * kPanelColumns) * 2;
  }
  constexpr std::int32_t block_chunks() const { return (block_dim + kChunk - 1) / kChunk; }
  constexpr std::int32_t chunk_count() const { return block_count * block_chunks(); }
  constexpr std::int32_t chain_count() const {
    return (chunk_count() + chain_chunks - 1) / chain_chunks;
  }
  constexpr std::int32_t slice_count() const {
    return panel_count() * (kPanelColumns / kSliceColumns);
  }

  // Elements of a block of weights.
  constexpr std::int64_t block_length() const {
    return std::int64_t{block_chunks()} * panel_count() * kPanelColumns * kChunk;
  }
  constexpr std::size_t weight_bytes() const {
    return std::size_t(weight_block_count) * std::size_t(block_length()) * 2;
  }
  constexpr std::size_t x_bytes(std::int32_t token_capacity) const {
    return TokenRows::bytes(token_capacity, chunk_count());
  }
};

}  // namespace ple::kernels
