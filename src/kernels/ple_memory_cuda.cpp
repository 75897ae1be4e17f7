// What the layer's pieces of memory hold, and what geometries it runs: no call of CUDA.

#include "base/error.hpp"
#include "kernels/carver.hpp"
#include "kernels/ple_layer_cuda.hpp"
#include "kernels/ple_tiles.hpp"

namespace ple::kernels {

namespace {

PleStepView carve_step(Carver& carver, const PleShape& shape, std::int32_t token_capacity,
                       std::int32_t span_capacity) {
  const auto tokens = static_cast<std::size_t>(token_capacity);
  PleStepView view;
  view.counts = carver.take<PleStepCounts>(1);
  view.spans = carver.take<PleSpan>(static_cast<std::size_t>(span_capacity));
  view.token_span = carver.take<std::int32_t>(tokens);
  view.slots = carver.take<SlotId>(tokens * static_cast<std::size_t>(shape.column_count));
  return view;
}

PleWeightsCuda carve_weights(Carver& carver, const PleShape& shape, const PleVectors& stored) {
  const auto channels =
      static_cast<std::size_t>(shape.stream_count) * static_cast<std::size_t>(shape.hidden);
  PleWeightsCuda weights;
  weights.projection = carver.take<std::uint16_t>(PleTiles(shape).projection_bytes() / 2);
  weights.gate_scale = carver.take<float>(channels);
  weights.vectors.norm_key = carver.take<std::uint16_t>(channels);
  weights.vectors.norm_query = carver.take<std::uint16_t>(channels);
  weights.vectors.norm_conv = carver.take<std::uint16_t>(channels);
  weights.vectors.conv =
      carver.take<std::uint16_t>(channels * static_cast<std::size_t>(shape.tap_count));
  const std::uint16_t* bias =
      carver.take<std::uint16_t>(channels + static_cast<std::size_t>(shape.hidden));
  if (stored.key_bias != nullptr) {
    weights.vectors.key_bias = bias;
    weights.vectors.value_bias = bias + channels;
  }
  weights.vectors.norm_offset = stored.norm_offset;
  return weights;
}

}  // namespace

std::size_t PleStepBlock::bytes(const PleShape& shape, std::int32_t token_capacity,
                                std::int32_t span_capacity) {
  Carver carver(nullptr);
  carve_step(carver, shape, token_capacity, span_capacity);
  return carver.used();
}

PleStepView PleStepBlock::view(std::byte* block, const PleShape& shape, std::int32_t token_capacity,
                               std::int32_t span_capacity) {
  Carver carver(block);
  return carve_step(carver, shape, token_capacity, span_capacity);
}

std::size_t PleWeightsCuda::bytes(const PleShape& shape) {
  Carver carver(nullptr);
  carve_weights(carver, shape, {});
  return carver.used();
}

PleWeightsCuda PleWeightsCuda::view(const std::byte* memory, const PleShape& shape,
                                    const PleVectors& stored) {
  Carver carver(const_cast<std::byte*>(memory));
  return carve_weights(carver, shape, stored);
}

Status check_ple_shape_cuda(const PleShape& shape) {
  constexpr std::int32_t kMaxStreams = 8;
  if (shape.hidden <= 0 || shape.hidden % 8 != 0) {
    return error(StatusCode::unsupported, "PLE layer on CUDA: hidden {} is no multiple of 8",
                 shape.hidden);
  }
  if (shape.stream_count < 1 || shape.stream_count > kMaxStreams) {
    return error(StatusCode::unsupported, "PLE layer on CUDA: {} streams, of 1 to {}",
                 shape.stream_count, kMaxStreams);
  }
  if (shape.tap_count < 2 || shape.tap_count > 4 || shape.dilation < 1) {
    return error(StatusCode::unsupported,
                 "PLE layer on CUDA: a convolution of {} taps, of 2 to 4, {} positions apart",
                 shape.tap_count, shape.dilation);
  }
  if (shape.embed_dim <= 0 || shape.column_count <= 0) {
    return error(StatusCode::invalid_argument, "PLE layer: {} columns make an embedding of {}",
                 shape.column_count, shape.embed_dim);
  }
  return {};
}

}  // namespace ple::kernels
