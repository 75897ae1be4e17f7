#include <algorithm>

#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "kernels/ple_layer_cpu.hpp"

namespace ple::kernels {

Result<PleWeightsCpu> PleWeightsCpu::create(const PleShape& shape, const PleVectors& vectors) {
  if (shape.tap_count < 1 || shape.tap_count > kPleTapCountMax || shape.dilation < 1) {
    return error(StatusCode::unsupported, "a convolution of {} taps (1 to {}) and dilation {}",
                 shape.tap_count, kPleTapCountMax, shape.dilation);
  }
  PleWeightsCpu weights;
  PLE_TRY_ASSIGN(weights.key_, PackedMatrix::allocate({.group_count = shape.stream_count,
                                                       .group_rows = shape.hidden,
                                                       .inner_count = shape.embed_dim}));
  PLE_TRY_ASSIGN(weights.value_, PackedMatrix::allocate({.group_count = 1,
                                                         .group_rows = shape.hidden,
                                                         .inner_count = shape.embed_dim}));
  const std::int64_t length = std::int64_t{shape.stream_count} * shape.hidden;
  weights.vector_length_ = length;
  weights.tap_count_ = shape.tap_count;
  weights.has_bias_ = vectors.key_bias != nullptr;
  const std::int64_t vector_count = 4 + shape.tap_count + (weights.has_bias_ ? 2 : 0);
  PLE_TRY_ASSIGN(
      weights.vectors_,
      AlignedBuffer::allocate(sizeof(float) * static_cast<std::size_t>(length * vector_count)));
  float* to = weights.vectors_.as<float>();
  for (std::int64_t i = 0; i < length; ++i) {
    const float key = vectors.norm_offset + bf16_to_f32(vectors.norm_key[i]);
    const float query = vectors.norm_offset + bf16_to_f32(vectors.norm_query[i]);
    to[i] = key;
    to[length + i] = query;
    to[2 * length + i] = key * query;
    to[3 * length + i] = vectors.norm_offset + bf16_to_f32(vectors.norm_conv[i]);
    for (std::int32_t k = 0; k < shape.tap_count; ++k) {
      to[(4 + k) * length + i] = bf16_to_f32(vectors.conv[i * shape.tap_count + k]);
    }
  }
  if (!weights.has_bias_) return weights;
  float* key_bias = to + (4 + shape.tap_count) * length;
  std::transform(vectors.key_bias, vectors.key_bias + length, key_bias, bf16_to_f32);
  std::transform(vectors.value_bias, vectors.value_bias + shape.hidden, key_bias + length,
                 bf16_to_f32);
  return weights;
}

}  // namespace ple::kernels
