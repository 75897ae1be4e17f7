#pragma once

#include <cstdint>

#include "kernels/ple_layer.hpp"

// The vector loops of the PLE layer on the CPU: everything but its two products. Sums run in an
// order that depends on the shape alone. Arrays of type `void` have the element type that the
// arithmetic (values: f32, or bf16 but in float32) or the highway type gives them.

namespace ple::kernels {

// What the gate needs of one panel of keys of one token.
struct GateSums {
  float dot = 0.0F;             // sum of k * gate_scale * R
  float key_square = 0.0F;      // sum of k^2
  float highway_square = 0.0F;  // sum of R^2
};

struct GateSumsArgs {
  const float* keys = nullptr;        // [token_count, key_stride], row_count used
  const float* gate_scale = nullptr;  // [row_count]
  const void* highway = nullptr;      // [token_count, highway_stride], from the panel's first row
  HighwayType highway_type = HighwayType::f32;
  GateSums* sums = nullptr;  // [token_count, sums_stride]
  std::int64_t key_stride = 0;
  std::int64_t highway_stride = 0;
  std::int64_t sums_stride = 0;
  std::int32_t token_count = 0;
  std::int32_t row_count = 0;
};
void gate_sums(const GateSumsArgs& args);

// The score of one token and stream, from the sums of its panels [panel_count].
float gate_score(const GateSums* sums, std::int32_t panel_count, std::int32_t hidden, float eps);

// Adds bias [row_begin, row_begin + row_count) to a panel of a product, [token_count, 64]; a null
// bias is zero.
void add_bias(const float* bias, std::int64_t row_begin, std::int32_t row_count,
              std::int32_t token_count, float* product);

// Sum of the squares of values [count].
float sum_of_squares(const void* values, Arithmetic arithmetic, std::int32_t count);

// The score of one token and stream in the arithmetic `reference`, up to step 8 of A.5.
struct ReferenceScoreArgs {
  const std::uint16_t* key = nullptr;  // [hidden] bf16
  const void* highway = nullptr;       // [hidden]
  HighwayType highway_type = HighwayType::f32;
  const float* key_scale = nullptr;    // [hidden]
  const float* query_scale = nullptr;  // [hidden]
  std::int32_t hidden = 0;
  float eps = 0.0F;
};
float reference_score(const ReferenceScoreArgs& args);

// Sum of the squares of rn(gamma * v), v [hidden] bf16.
float reference_gated_square(const std::uint16_t* values, float gamma, std::int32_t hidden);

// The value and scalars of the position that a tap reads; values is null before position 0.
struct TapInput {
  const void* values = nullptr;  // [hidden]
  float gamma = 0.0F;
  float q = 0.0F;
};

// Gated value, convolution, SiLU and the sum with the highway, of one token and stream.
struct InjectArgs {
  Arithmetic arithmetic = Arithmetic::float32;
  HighwayType highway_type = HighwayType::f32;
  OutputMode output_mode = OutputMode::update;
  const void* highway = nullptr;      // [hidden]
  void* output = nullptr;             // [hidden], may be the highway
  const TapInput* inputs = nullptr;   // [tap_count], the last one the token itself
  const float* conv_scale = nullptr;  // [hidden]
  const float* taps = nullptr;        // [tap_count, tap_stride], hidden used
  std::int64_t tap_stride = 0;
  std::int32_t tap_count = 0;
  std::int32_t hidden = 0;
};
void inject(const InjectArgs& args);

// to[i] = rn_bf16(from[i]).
void round_all_to_bf16(const float* from, std::uint16_t* to, std::int64_t count);

}  // namespace ple::kernels
