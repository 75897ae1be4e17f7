#include "engine/engram_v41_layer.hpp"

namespace ple {

kernels::EngramShape engram_shape_of(const LayerSpec& layer) {
  const auto& parts = std::get<EngramLayer>(layer.parts);
  return {.hidden = parts.hidden,
          .stream_count = parts.stream_count,
          .embed_dim = parts.embed_dim,
          .column_count = layer.hash->column_count(),
          .eps = parts.eps};
}

kernels::EngramRounding engram_rounding_of(const LayerOptions& options) {
  const bool is_fp8 = options.projection != Projection::dequantized;
  return {.quantizes_rows = is_fp8,
          .rounds_product = is_fp8 || options.arithmetic == kernels::Arithmetic::reference};
}

LayerTraits engram_traits(const kernels::EngramShape& shape, std::int64_t weight_bytes) {
  const std::int64_t highway = std::int64_t{shape.stream_count} * shape.hidden;
  LayerTraits traits;
  traits.input_elements = highway;
  traits.output_elements = highway;
  traits.stream_count = shape.stream_count;
  traits.dense_bytes = static_cast<std::uint64_t>(
      (highway + shape.hidden) * shape.embed_dim * weight_bytes + highway * 4);
  return traits;
}

}  // namespace ple
