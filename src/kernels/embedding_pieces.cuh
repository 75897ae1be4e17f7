#pragma once

#include "kernels/ple_tiles.hpp"
#include "kernels/row_decode.cuh"

// A token's embedding, piece by piece: 16 bytes of a tile, eight elements in bf16.

namespace ple::kernels {

inline constexpr int kPiece = 8;
inline constexpr int kPiecesPerChunk = kChunk / kPiece;

// Elements k .. k + 7 of a token's embedding, which may cross rows or lie behind the last one.
__device__ inline uint4 straddling_piece(const RowView& rows, const SlotId* slots, int k,
                                         int embed_dim) {
  std::uint16_t out[kPiece] = {};
  for (int j = 0; j < kPiece && k + j < embed_dim; ++j) {
    const int column = (k + j) / rows.encoding.dim;
    const std::byte* row = slot_row(rows, slots[column]);
    if (row == nullptr) continue;
    const float value = row_element(rows.encoding, row, k + j - column * rows.encoding.dim);
    out[j] = bf16_bits(value);
  }
  return {out[0] | std::uint32_t{out[1]} << 16, out[2] | std::uint32_t{out[3]} << 16,
          out[4] | std::uint32_t{out[5]} << 16, out[6] | std::uint32_t{out[7]} << 16};
}

// The same, from k on, a multiple of kPiece.
__device__ inline uint4 embedding_piece(const RowView& rows, const SlotId* slots, int k,
                                        int embed_dim) {
  const int dim = rows.encoding.dim;
  if (k >= embed_dim) return {};
  if (dim % kPiece != 0) return straddling_piece(rows, slots, k, embed_dim);
  const int column = k / dim;
  const std::byte* row = slot_row(rows, slots[column]);
  return row == nullptr ? uint4{} : row_elements8(rows.encoding, row, k - column * dim);
}

}  // namespace ple::kernels
