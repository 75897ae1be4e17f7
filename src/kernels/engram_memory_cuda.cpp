// What the layer's pieces of memory hold, and what geometries it runs: no call of CUDA.

#include "base/error.hpp"
#include "kernels/carver.hpp"
#include "kernels/e4m3_tiles.hpp"
#include "kernels/engram_stages_cuda.hpp"

namespace ple::kernels {

namespace {

EngramStepView carve_step(Carver& carver, const EngramShape& shape, std::int32_t token_capacity) {
  const auto tokens = static_cast<std::size_t>(token_capacity);
  EngramStepView view;
  view.counts = carver.take<PleStepCounts>(1);
  view.dead = carver.take<std::uint8_t>(tokens);
  view.slots = carver.take<SlotId>(tokens * static_cast<std::size_t>(shape.column_count));
  return view;
}

EngramWeightsCuda carve_weights(Carver& carver, const EngramShape& shape, EngramWeightForm form) {
  const PleTiles tiles(product_shape(shape));
  EngramWeightsCuda weights;
  if (form == EngramWeightForm::bf16) {
    weights.projection = carver.take<std::uint16_t>(tiles.projection_bytes() / 2);
  } else {
    weights.codes = carver.take<std::byte>(e4m3_code_bytes(tiles));
    weights.factors = carver.take<std::uint32_t>(e4m3_factor_words(tiles));
  }
  weights.gate_scale = carver.take<float>(static_cast<std::size_t>(shape.stream_count) *
                                          static_cast<std::size_t>(shape.hidden));
  return weights;
}

}  // namespace

EngramWeightForm engram_weight_form(const CudaTraits& traits) {
  return traits.has_wgmma() ? EngramWeightForm::e4m3 : EngramWeightForm::bf16;
}

std::size_t EngramStepBlock::bytes(const EngramShape& shape, std::int32_t token_capacity) {
  Carver carver(nullptr);
  carve_step(carver, shape, token_capacity);
  return carver.used();
}

EngramStepView EngramStepBlock::view(std::byte* block, const EngramShape& shape,
                                     std::int32_t token_capacity) {
  Carver carver(block);
  return carve_step(carver, shape, token_capacity);
}

std::size_t EngramWeightsCuda::bytes(const EngramShape& shape, EngramWeightForm form) {
  Carver carver(nullptr);
  carve_weights(carver, shape, form);
  return carver.used();
}

EngramWeightsCuda EngramWeightsCuda::view(const std::byte* memory, const EngramShape& shape,
                                          EngramWeightForm form) {
  Carver carver(const_cast<std::byte*>(memory));
  return carve_weights(carver, shape, form);
}

Status check_engram_shape_cuda(const EngramShape& shape) {
  constexpr std::int32_t kBlock = 32;
  if (shape.hidden <= 0 || shape.hidden % kSliceColumns != 0) {
    return error(StatusCode::unsupported, "Engram layer on CUDA: hidden {} is no multiple of {}",
                 shape.hidden, kSliceColumns);
  }
  if (shape.embed_dim <= 0 || shape.embed_dim % kBlock != 0 || shape.column_count <= 0 ||
      shape.stream_count <= 0) {
    return error(StatusCode::unsupported,
                 "Engram layer on CUDA: {} streams, {} columns that make an embedding of {}, of a "
                 "multiple of {}",
                 shape.stream_count, shape.column_count, shape.embed_dim, kBlock);
  }
  return {};
}

}  // namespace ple::kernels
