#include "kernels/ple_value_pass_cpu.hpp"

#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "kernels/ple_elementwise_cpu.hpp"

namespace ple::kernels {

ValuePass::ValuePass(const Inputs& inputs, const PleWeightsCpu& weights, ScratchParts& scratch)
    : inputs_(inputs),
      matrix_(weights.value()),
      value_bias_(weights.value_bias()),
      x_({.rows = inputs.rows,
          .slots = inputs.slots,
          .column_count = inputs.shape.column_count,
          .stride = line_stride(inputs.shape.embed_dim),
          .capacity = TokenTile::capacity(inputs.token_count)},
         scratch) {
  values_ = scratch.take<std::byte>(inputs.token_count * value_bytes());
  scalars_ = scratch.take<float>(std::int64_t{inputs.token_count} * 2 * inputs.shape.stream_count);
}

std::int64_t ValuePass::value_bytes() const {
  return std::int64_t{inputs_.shape.hidden} * (inputs_.arithmetic == Arithmetic::float32 ? 4 : 2);
}

void ValuePass::value_panel(std::int32_t panel_index, const std::uint16_t* next_panel,
                            TokenTile tile) const {
  alignas(kLineBytes) float product[kProductTokens * kPanelRows];
  for (std::int32_t begin = 0; begin < tile.token_count; begin += kProductTokens) {
    const std::int32_t count = std::min(kProductTokens, tile.token_count - begin);
    project_panel(matrix_, panel_index, embeddings(begin, count), product,
                  begin == 0 ? next_panel : nullptr);
    add_bias(value_bias_, matrix_.panel_row(panel_index), matrix_.panel_rows(panel_index), count,
             product);
    for (std::int32_t t = 0; t < count; ++t) {
      const std::int64_t token = tile.token_begin + begin + t;
      store_values(product + t * kPanelRows, matrix_.panel_rows(panel_index),
                   token * inputs_.shape.hidden + matrix_.panel_row(panel_index));
    }
  }
}

void ValuePass::store_values(const float* from, std::int32_t count, std::int64_t index) const {
  if (inputs_.arithmetic == Arithmetic::float32) {
    std::copy_n(from, count, reinterpret_cast<float*>(values_) + index);
  } else {
    round_all_to_bf16(from, reinterpret_cast<std::uint16_t*>(values_) + index, count);
  }
}

void ValuePass::set_conv_roots(std::int32_t token) const {
  const PleShape& shape = inputs_.shape;
  const float* gamma = scalars(token);
  float* q = scalars(token) + shape.stream_count;
  const auto hidden = static_cast<float>(shape.hidden);
  if (inputs_.arithmetic == Arithmetic::reference) {
    const auto* v = reinterpret_cast<const std::uint16_t*>(values(token));
    for (std::int32_t c = 0; c < shape.stream_count; ++c) {
      const float mean = reference_gated_square(v, gamma[c], shape.hidden) / hidden;
      q[c] = 1.0F / std::sqrt(mean + shape.eps_of_conv());
    }
  } else {
    const float mean = sum_of_squares(values(token), inputs_.arithmetic, shape.hidden) / hidden;
    for (std::int32_t c = 0; c < shape.stream_count; ++c) {
      q[c] = 1.0F / std::sqrt(gamma[c] * gamma[c] * mean + shape.eps_of_conv());
    }
  }
}

void ValuePass::write_ring(std::byte* ring, std::int32_t ring_length, std::int32_t entry,
                           std::int32_t token) const {
  const std::int64_t scalar_bytes = std::int64_t{inputs_.shape.stream_count} * 2 * 4;
  std::byte* ring_scalars =
      ring + PleRing::value_bytes(inputs_.shape, inputs_.arithmetic, ring_length);
  std::memcpy(ring + entry * value_bytes(), values(token), static_cast<std::size_t>(value_bytes()));
  std::memcpy(ring_scalars + entry * scalar_bytes, scalars(token),
              static_cast<std::size_t>(scalar_bytes));
}

Status check_ple_shape(const PleShape& shape, const RowView& rows, std::int32_t ring_length,
                       const PleWeightsCpu& weights) {
  const PackedMatrix::Shape& key = weights.key().shape();
  if (key.group_rows != shape.hidden || key.group_count != shape.stream_count ||
      key.inner_count != shape.embed_dim || weights.tap_count() != shape.tap_count) {
    return error(StatusCode::invalid_argument,
                 "a step of hidden {}, {} streams, width {} and {} taps, with weights of {}, {}, "
                 "{} and {}",
                 shape.hidden, shape.stream_count, shape.embed_dim, shape.tap_count, key.group_rows,
                 key.group_count, key.inner_count, weights.tap_count());
  }
  if (std::int64_t{shape.column_count} * rows.encoding.dim != shape.embed_dim) {
    return error(StatusCode::invalid_argument, "{} rows of {} elements do not fill a width of {}",
                 shape.column_count, rows.encoding.dim, shape.embed_dim);
  }
  if (ring_length < shape.window()) {
    return error(StatusCode::invalid_argument, "a ring of {} positions for a window of {}",
                 ring_length, shape.window());
  }
  return {};
}

}  // namespace ple::kernels
