#pragma once

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/types.hpp"
#include "kernels/ple_layer.hpp"

// The operators of DeepSeek V4.1's Engram layer (specification B.2). Per token with embedding e
// [embed_dim] and stream c:
//   (key, value) = wkv e           key [stream_count, hidden], value [hidden] for all streams
//   s[c]    = (sum h*w*key) * rsqrt(mean h^2 + eps) * rsqrt(mean key^2 + eps) * hidden^-0.5
//   gate[c] = sigmoid(copysign(sqrt(max(|s|, 1e-6)), s)), 0 where the token is dead
//   h[c]   += gate[c] * value
// No conv, no state. Sums are f32 in every mode.

namespace ple::kernels {

struct EngramShape {
  std::int32_t hidden = 0;
  std::int32_t stream_count = 0;
  std::int32_t embed_dim = 0;     // column_count * row dim
  std::int32_t column_count = 0;  // rows of a token
  float eps = 0.0F;
};

// How the product takes its activations and gives its results.
struct EngramRounding {
  bool quantizes_rows = false;  // to E4M3 with a power of two for each 32 elements
  bool rounds_product = false;  // keys and values to bf16, summed by blocks of 32 elements
};

// One step through the layer. All pointers are those of the device that runs the step.
struct EngramLayerArgs {
  EngramShape shape;
  EngramRounding rounding;
  HighwayType highway_type = HighwayType::f32;
  OutputMode output_mode = OutputMode::update;
  RowView rows;
  const SlotId* slots = nullptr;       // [token_count, column_count]
  const std::uint8_t* dead = nullptr;  // [token_count], not 0: takes no part
  const void* highway = nullptr;       // [token_count, stream_count, hidden]
  void* output = nullptr;              // the same shape and type; may be the highway itself
  std::byte* scratch = nullptr;        // 64-byte aligned; the bytes are asked of the backend
  std::int32_t token_count = 0;
};

}  // namespace ple::kernels
