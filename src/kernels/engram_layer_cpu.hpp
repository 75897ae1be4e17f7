#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/engram_layer.hpp"
#include "kernels/projection.hpp"

// The Engram layer on the CPU. The output bits of a token do not depend on the other tokens of the
// step, nor on the thread count.

namespace ple::kernels {

class EngramWeightsCpu {
 public:
  // The vectors are bf16 bits [stream_count, hidden]. The product is zero until its rows are packed
  // into key_value(), as codes or as bf16; both give the same bits.
  static Result<EngramWeightsCpu> create(const EngramShape& shape, EngramRounding rounding,
                                         std::span<const std::uint16_t> query_weight,
                                         std::span<const std::uint16_t> key_weight,
                                         bool is_e4m3 = false);

  // stream_count groups of keys, then the values: [(stream_count + 1) * hidden, embed_dim].
  PackedMatrix& key_value() { return key_value_; }
  const PackedMatrix& key_value() const { return key_value_; }

  // [stream_count, hidden] f32: the query weight times the key weight.
  const float* gate_scale() const { return gate_scale_.as<float>(); }

 private:
  PackedMatrix key_value_;
  AlignedBuffer gate_scale_;
};

// Bytes of scratch for a step of token_count tokens: of a bounded tile, never less for more tokens.
std::size_t engram_layer_scratch_bytes_cpu(const EngramShape& shape, std::int32_t token_count);

Status engram_layer_cpu(const EngramLayerArgs& args, const EngramWeightsCpu& weights,
                        ThreadPool& pool);

// Replaces each block of 32 bf16 values by what FP8 keeps of it: codes E4M3 with the scale 2^ceil(
// log2(max(amax, 1e-4) / 448)), as DeepSeek's code quantises activations. count: of 32.
void quantize_e4m3_blocks(std::uint16_t* values, std::int64_t count);

}  // namespace ple::kernels
