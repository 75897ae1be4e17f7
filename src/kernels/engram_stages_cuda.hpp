#pragma once

#include "kernels/engram_layer_cuda.hpp"
#include "kernels/ple_stages_cuda.hpp"

// The stages of engram_layer_cuda that the PLE layer has not: the first are its own.

namespace ple::kernels {

// The product's geometry as the PLE layer's stages take it.
inline PleShape product_shape(const EngramShape& shape) {
  return {.hidden = shape.hidden,
          .stream_count = shape.stream_count,
          .embed_dim = shape.embed_dim,
          .column_count = shape.column_count,
          .eps = shape.eps};
}

struct InjectArgs {
  PleShape shape;  // product_shape
  HighwayType highway_type = HighwayType::bf16;
  OutputMode output_mode = OutputMode::update;
  const PleStepCounts* counts = nullptr;
  const std::uint8_t* dead = nullptr;  // [token_capacity]
  TokenSums sums;
  const void* values = nullptr;  // [token_capacity, hidden]
  const void* highway = nullptr;
  void* output = nullptr;
  std::int32_t token_capacity = 0;
  bool has_bf16_values = false;  // else f32
};

// The gates, and the add of the gated values.
Status inject_cuda(const InjectArgs& args, bool is_overlapped, cudaStream_t stream);

}  // namespace ple::kernels
