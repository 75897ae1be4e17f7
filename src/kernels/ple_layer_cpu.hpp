#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/ple_layer.hpp"
#include "kernels/projection.hpp"

// The PLE layer on the CPU. The output bits of a token depend on its own sequence alone, not on
// the other tokens of the step, the split into steps or the thread count.

namespace ple::kernels {

inline constexpr std::int32_t kPleTapCountMax = 16;

// The dense weights in the form in which the CPU reads them.
class PleWeightsCpu {
 public:
  // Takes the vectors; the two products are zero until their rows are packed into key() and
  // value().
  static Result<PleWeightsCpu> create(const PleShape& shape, const PleVectors& vectors);

  PackedMatrix& key() { return key_; }      // [stream_count * hidden, embed_dim]
  PackedMatrix& value() { return value_; }  // [hidden, embed_dim]
  const PackedMatrix& key() const { return key_; }
  const PackedMatrix& value() const { return value_; }

  // f32 vectors [stream_count, hidden]: the norm factors, and those of both sides of the gate
  // multiplied; then the taps, [tap_count, stream_count, hidden]. Biases are null without.
  std::int32_t tap_count() const { return tap_count_; }
  const float* key_scale() const { return vector(0); }
  const float* query_scale() const { return vector(1); }
  const float* gate_scale() const { return vector(2); }
  const float* conv_scale() const { return vector(3); }
  const float* tap(std::int32_t tap_index) const { return vector(4 + tap_index); }
  const float* key_bias() const { return has_bias_ ? vector(4 + tap_count_) : nullptr; }
  const float* value_bias() const { return has_bias_ ? vector(5 + tap_count_) : nullptr; }

 private:
  const float* vector(std::int32_t index) const {
    return vectors_.as<float>() + std::int64_t{index} * vector_length_;
  }

  PackedMatrix key_;
  PackedMatrix value_;
  AlignedBuffer vectors_;
  std::int64_t vector_length_ = 0;
  std::int32_t tap_count_ = 0;
  bool has_bias_ = false;
};

// Bytes of scratch that a step of token_count tokens needs: the values and gates of the step, and
// a bounded tile. Never less for more tokens.
std::size_t ple_layer_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                        std::int32_t token_count);

Status ple_layer_cpu(const PleLayerArgs& args, const PleWeightsCpu& weights, ThreadPool& pool);

std::size_t ple_rebuild_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                          std::int32_t entry_count);

Status ple_rebuild_ring_cpu(const PleRebuildArgs& args, const PleWeightsCpu& weights,
                            ThreadPool& pool);

}  // namespace ple::kernels
