#pragma once

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/types.hpp"
#include "kernels/ple_layer.hpp"

// The operators of LongCat's input embedding (specification C.4). Per token t:
//   out = (E[t] + sum_i P_i row_i) / (1 + table_count), tables in order
// A table without a row (kZeroSlot) adds nothing. An ignored token keeps E[t].

namespace ple::kernels {

struct LongcatShape {
  std::int64_t vocab_size = 0;
  std::int32_t hidden = 0;
  std::int32_t table_count = 0;
  std::int32_t row_dim = 0;
};

struct LongcatLayerArgs {
  LongcatShape shape;
  bool rounds_each = false;  // each product, sum and quotient to bf16, as the public code does
  HighwayType output_type = HighwayType::f32;
  RowView rows;
  const SlotId* slots = nullptr;          // [token_count, table_count]
  const TokenId* tokens = nullptr;        // [token_count], in [0, vocab_size)
  const std::uint8_t* ignored = nullptr;  // [token_count]
  void* output = nullptr;                 // [token_count, hidden]
  std::byte* scratch = nullptr;           // 64-byte aligned; the bytes are asked of the backend
  std::int32_t token_count = 0;
};

}  // namespace ple::kernels
