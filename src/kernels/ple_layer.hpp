#pragma once

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"

// The operators of the PLE layer (family qwen4_exp; specification A.5), shared by the CPU and CUDA
// files. They take plain structs of pointers and sizes and never allocate. The Engram demo's layer
// (B.1) is the same with biases, norm weights w instead of 1 + w, and two eps.
//
// The layer, per token with value row v [hidden] and stream c:
//   gamma[c] = gate, from the three sums  sum k*(1+w_key)*(1+w_query)*R,  sum k^2,  sum R^2
//   G[c,d]   = gamma[c] * v[d]
//   q[c]     = rsqrt(mean_d G[c,d]^2 + eps)
//   N[c,d]   = G[c,d] * q[c] * (1 + w_conv[c,d])
//   y[c,d]   = sum_i conv[c,d,i] * N at (position - (K-1-i) * dilation)
//   R[c,d]  += G[c,d] + SiLU(y[c,d])
// Keys k are never stored (but in the arithmetic `reference`); a past position is v and (gamma, q).

namespace ple::kernels {

enum class Arithmetic : std::int32_t {
  float32 = 0,    // sums and tensors in f32, only the result is rounded to the highway's type
  mixed = 1,      // the same, but v is kept in bf16
  reference = 2,  // every tensor rounded to bf16 where the public reference rounds it
};

enum class HighwayType : std::int32_t { f32 = 0, bf16 = 1 };

struct PleShape {
  std::int32_t hidden = 0;
  std::int32_t stream_count = 0;
  std::int32_t embed_dim = 0;     // column_count * row dim
  std::int32_t column_count = 0;  // rows of a token
  std::int32_t tap_count = 0;     // K, taps of the convolution
  std::int32_t dilation = 0;      // positions between two taps
  float eps = 0.0F;
  float conv_eps = 0.0F;  // of the norm before the convolution; 0: the same

  constexpr float eps_of_conv() const { return conv_eps > 0.0F ? conv_eps : eps; }
  std::int32_t window() const { return (tap_count - 1) * dilation; }
};

// The carried state of one sequence and layer is a ring of positions: ring_length values
// [ring_length, hidden] (bf16 in mixed and reference, else f32), then ring_length scalars
// [ring_length, 2, stream_count] f32: gamma, then q.
struct PleRing {
  static std::int64_t value_bytes(const PleShape& shape, Arithmetic arithmetic,
                                  std::int32_t ring_length) {
    const std::int64_t element_bytes = arithmetic == Arithmetic::float32 ? 4 : 2;
    return (std::int64_t{ring_length} * shape.hidden * element_bytes + 15) / 16 * 16;
  }
  static std::int64_t bytes(const PleShape& shape, Arithmetic arithmetic,
                            std::int32_t ring_length) {
    return value_bytes(shape, arithmetic, ring_length) +
           std::int64_t{ring_length} * 2 * shape.stream_count * 4;
  }
};

// One sequence's tokens in a step. Ring entry (cursor - j) mod ring_length holds position
// (position - j), j = 1..window; what lies before position 0 is zero and never read. The step
// leaves its last write_count tokens in the entries cursor .. cursor + write_count - 1 (mod
// ring_length), which never overlap the window before the cursor: a step can be run again.
struct PleSpan {
  std::byte* ring = nullptr;
  std::int64_t position = 0;     // of the first token
  std::int32_t token_begin = 0;  // index of the first token in the step
  std::int32_t token_count = 0;
  std::int32_t cursor = 0;
  std::int32_t write_count = 0;
};

// The layer's vectors as a checkpoint stores them, bf16 bits.
struct PleVectors {
  const std::uint16_t* norm_key = nullptr;    // [stream_count, hidden]
  const std::uint16_t* norm_query = nullptr;  // [stream_count, hidden]
  const std::uint16_t* norm_conv = nullptr;   // [stream_count, hidden]
  const std::uint16_t* conv = nullptr;        // [stream_count, hidden, tap_count]
  const std::uint16_t* key_bias = nullptr;    // [stream_count, hidden], or null, as the next one is
  const std::uint16_t* value_bias = nullptr;  // [hidden]
  float norm_offset = 1.0F;  // what a norm weight lacks: 1 where it is stored zero-centred
};

// What a step writes: the highway with the layer added, or only what the layer adds.
enum class OutputMode : std::int32_t { update = 0, delta = 1 };

// One step through the layer: reads the highway, writes output and updates the rings of its spans.
// Spans stand in the order of their tokens and do not overlap; a token of no span is not written
// (its rows are still read: kZeroSlot). All pointers are those of the device that runs the step.
struct PleLayerArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::float32;
  HighwayType highway_type = HighwayType::f32;
  OutputMode output_mode = OutputMode::update;
  RowView rows;
  const SlotId* slots = nullptr;   // [token_count, column_count]
  const void* highway = nullptr;   // [token_count, stream_count, hidden]
  void* output = nullptr;          // the same shape and type; may be the highway itself
  const PleSpan* spans = nullptr;  // [span_count]
  std::byte* scratch = nullptr;    // 64-byte aligned; the bytes are asked of the backend
  std::int32_t span_count = 0;
  std::int32_t token_count = 0;
  std::int32_t ring_length = 0;  // of every span's ring
};

// Rebuilds ring entries from their rows and gates, as a compact snapshot keeps them: v is the value
// product of the rows, q follows from v and gamma, with the same bits as in the step that first
// made them. Writes the entries entry_begin .. entry_begin + entry_count - 1 (mod ring_length).
struct PleRebuildArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::float32;
  RowView rows;
  const SlotId* slots = nullptr;  // [entry_count, column_count]
  const float* gamma = nullptr;   // [entry_count, stream_count]
  std::byte* ring = nullptr;
  std::byte* scratch = nullptr;  // 64-byte aligned; the bytes are asked of the backend
  std::int32_t ring_length = 0;
  std::int32_t entry_begin = 0;
  std::int32_t entry_count = 0;
};

}  // namespace ple::kernels
