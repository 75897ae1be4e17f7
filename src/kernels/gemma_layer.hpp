#pragma once

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/types.hpp"
#include "kernels/ple_layer.hpp"

// The operators of Gemma 3n's and 4's per-layer inputs (specification D.2). Per token with main
// embedding e [hidden], and for each layer l with its part of the token's row:
//   r[l] = row[l] * layer_dim^0.5
//   c[l] = (proj e)[l] * hidden^-0.5, its RMS norm, times the norm's weight
//   p[l] = (c[l] + r[l]) * 2^-0.5

namespace ple::kernels {

struct GemmaShape {
  std::int32_t hidden = 0;
  std::int32_t layer_count = 0;
  std::int32_t layer_dim = 0;
  float eps = 0.0F;
};

// The three factors, as the model's number type holds them.
struct GemmaScales {
  float row = 1.0F;
  float projection = 1.0F;
  float sum = 1.0F;
};

struct GemmaLayerArgs {
  GemmaShape shape;
  GemmaScales scales;
  bool rounds_each = false;             // each operation to bf16, as the public code does
  HighwayType type = HighwayType::f32;  // of input and output
  RowView rows;
  const SlotId* slots = nullptr;  // [token_count]
  const void* input = nullptr;    // [token_count, hidden]
  void* output = nullptr;         // [token_count, layer_count, layer_dim]
  std::byte* scratch = nullptr;   // 64-byte aligned; the bytes are asked of the backend
  std::int32_t token_count = 0;
};

}  // namespace ple::kernels
