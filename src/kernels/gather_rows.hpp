#pragma once

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/types.hpp"

namespace ple::kernels {

// The embeddings of tokens from their rows: column j of a token fills elements [j * dim, (j + 1) *
// dim). Elements are bf16: the value in f32 rounded once, but for fp8_e4m3, which multiplies its
// code by the rounded scale (specification A.2).
struct GatherRowsArgs {
  RowView rows;
  const SlotId* slots = nullptr;  // [token_count, column_count]
  std::uint16_t* out = nullptr;   // [token_count, stride], zero from column_count * dim on
  std::int64_t stride = 0;
  std::int32_t token_count = 0;
  std::int32_t column_count = 0;
};

// Where a slot's bytes are; null for kZeroSlot.
inline const std::byte* row_bytes_of(const RowView& rows, SlotId slot) {
  if (slot == kZeroSlot) return nullptr;
  if (slot < rows.arena_slot_count) return rows.arena + std::size_t{slot} * rows.slot_bytes;
  return rows.staging + std::size_t{slot - rows.arena_slot_count} * rows.slot_bytes;
}

// Decodes one row into encoding.dim bf16 values.
void decode_row_cpu(const RowEncoding& encoding, const std::byte* row, std::uint16_t* out);

// Runs on the calling thread; callers split the tokens.
void gather_rows_cpu(const GatherRowsArgs& args);

}  // namespace ple::kernels
