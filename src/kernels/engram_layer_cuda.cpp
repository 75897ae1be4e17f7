#include "kernels/engram_layer_cuda.hpp"

#include "kernels/carver.hpp"
#include "kernels/engram_stages_cuda.hpp"

namespace ple::kernels {

namespace {

struct Scratch {
  std::uint16_t* embeddings = nullptr;
  std::byte* values = nullptr;
  ColumnSums* sums = nullptr;
  std::size_t bytes = 0;

  Scratch(std::byte* base, const EngramShape& shape, EngramRounding rounding, std::int32_t tokens) {
    const PleTiles tiles(product_shape(shape));
    const auto count = static_cast<std::size_t>(tokens);
    Carver carver(base);
    embeddings = carver.take<std::uint16_t>(TokenRows::bytes(tokens, tiles.chunk_count) / 2);
    values = carver.take<std::byte>(count * static_cast<std::size_t>(shape.hidden) *
                                    (rounding.rounds_product ? 2 : 4));
    sums = carver.take<ColumnSums>(count *
                                   static_cast<std::size_t>(sums_per_token(tiles, kGroupSlices)));
    bytes = carver.used();
  }
};

// Leaves in args how many sums a group has.
Status project(const EngramLayerCudaArgs& layer, ProjectArgs& args, cudaStream_t stream) {
  const bool is_overlapped = layer.traits.has_overlapped_launch();
  const bool is_sliced = layer.traits.has_wgmma() && layer.token_capacity <= kMaxSlicedTokens;
  const bool is_e4m3 = layer.form == EngramWeightForm::e4m3;
  args.sums.sums_per_group =
      is_e4m3 ? kGroupSlices : sums_per_group(layer.traits.has_wgmma(), layer.token_capacity);
  if (is_e4m3) return project_e4m3_wgmma_cuda(args, is_overlapped, stream);
  if (is_sliced) return project_sliced_wgmma_cuda(args, is_overlapped, stream);
  if (layer.traits.has_wgmma()) return project_tiled_wgmma_cuda(args, is_overlapped, stream);
  return project_mma_cuda(args, is_overlapped, stream);
}

}  // namespace

std::size_t engram_layer_scratch_bytes_cuda(const EngramShape& shape, EngramRounding rounding,
                                            std::int32_t token_capacity) {
  return Scratch(nullptr, shape, rounding, token_capacity).bytes;
}

Status engram_layer_cuda(const EngramLayerCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_engram_shape_cuda(args.shape));
  if (args.token_capacity == 0) return {};
  const Scratch scratch(args.scratch, args.shape, args.rounding, args.token_capacity);
  const EngramStepView step = EngramStepBlock::view(args.step, args.shape, args.token_capacity);
  const PleShape shape = product_shape(args.shape);
  const bool is_overlapped = args.traits.has_overlapped_launch();

  StepCopy copy;
  EngramStepView asked = step;
  if (args.pinned_step != nullptr) {
    asked = EngramStepBlock::view(const_cast<std::byte*>(args.pinned_step), args.shape,
                                  args.token_capacity);
    const std::ptrdiff_t bytes = reinterpret_cast<const std::byte*>(step.slots) - args.step;
    copy = {reinterpret_cast<const uint4*>(args.pinned_step), reinterpret_cast<uint4*>(args.step),
            static_cast<std::int32_t>(bytes / static_cast<std::ptrdiff_t>(sizeof(uint4)))};
  }
  PLE_TRY(gather_embeddings_cuda({.rows = args.rows,
                                  .copy = copy,
                                  .slots = asked.slots,
                                  .embeddings = scratch.embeddings,
                                  .embed_dim = shape.embed_dim,
                                  .column_count = shape.column_count,
                                  .token_capacity = args.token_capacity,
                                  .quantizes = args.rounding.quantizes_rows},
                                 stream));
  ProjectArgs product;
  product.shape = shape;
  product.arithmetic = args.rounding.rounds_product ? Arithmetic::mixed : Arithmetic::float32;
  product.highway_type = args.highway_type;
  product.counts = step.counts;
  product.embeddings = scratch.embeddings;
  product.projection = args.weights.projection;
  product.codes = args.weights.codes;
  product.factors = args.weights.factors;
  product.gate_scale = args.weights.gate_scale;
  product.highway = args.highway;
  product.values = scratch.values;
  product.sums.data = scratch.sums;
  product.token_capacity = args.token_capacity;
  product.group_end = PleTiles(shape).group_count;
  product.multiprocessor_count = args.traits.multiprocessor_count;
  product.rounds_keys = args.rounding.rounds_product;
  PLE_TRY(project(args, product, stream));
  return inject_cuda({.shape = shape,
                      .highway_type = args.highway_type,
                      .output_mode = args.output_mode,
                      .counts = step.counts,
                      .dead = step.dead,
                      .sums = product.sums,
                      .values = scratch.values,
                      .highway = args.highway,
                      .output = args.output,
                      .token_capacity = args.token_capacity,
                      .has_bf16_values = args.rounding.rounds_product},
                     is_overlapped, stream);
}

}  // namespace ple::kernels
