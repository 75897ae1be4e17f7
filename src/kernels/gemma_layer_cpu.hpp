#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/gemma_layer.hpp"
#include "kernels/projection.hpp"

// Gemma's per-layer inputs on the CPU. The output bits of a token do not depend on the other tokens
// of the step, nor on the thread count.

namespace ple::kernels {

class GemmaWeightsCpu {
 public:
  // norm_weight: bf16 bits [layer_dim]. The product is zero until its rows are packed.
  // rounds_each: as the steps will ask for.
  static Result<GemmaWeightsCpu> create(const GemmaShape& shape, bool rounds_each,
                                        std::span<const std::uint16_t> norm_weight);

  // A group for each layer: [layer_count * layer_dim, hidden].
  PackedMatrix& projection() { return projection_; }
  const PackedMatrix& projection() const { return projection_; }

  const float* norm_weight() const { return norm_weight_.as<float>(); }

 private:
  PackedMatrix projection_;
  AlignedBuffer norm_weight_;
};

// Bytes of scratch for a step of token_count tokens: of a bounded tile, never less for more tokens.
std::size_t gemma_layer_scratch_bytes_cpu(const GemmaShape& shape, std::int32_t token_count);

Status gemma_layer_cpu(const GemmaLayerArgs& args, const GemmaWeightsCpu& weights,
                       ThreadPool& pool);

}  // namespace ple::kernels
