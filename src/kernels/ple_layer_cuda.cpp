#include "kernels/ple_layer_cuda.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/carver.hpp"
#include "kernels/ple_stages_cuda.hpp"

namespace ple::kernels {

namespace {

// Up to here the last stage takes the gates from the product's sums itself; above, many blocks
// would do so again for the same token, and a kernel of its own is cheaper.
constexpr std::int32_t kMaxFusedGateTokens = 64;
constexpr std::int32_t kMaxMixedTokens = 512;  // above, the last stage walks chains

// Tokens whose keys are held at once: in reference half of a long step's, in whole blocks.
std::int32_t panel_tokens_of(Arithmetic arithmetic, std::int32_t token_capacity) {
  if (arithmetic != Arithmetic::reference || token_capacity <= kMaxBlockRows) return token_capacity;
  const std::int32_t half = (token_capacity + kMaxPanels - 1) / kMaxPanels;
  return (half + kMaxBlockRows - 1) / kMaxBlockRows * kMaxBlockRows;
}

struct Scratch {
  std::uint16_t* embeddings = nullptr;
  std::byte* values = nullptr;
  TokenSums sums;
  std::uint16_t* keys = nullptr;  // of a panel
  PleStepCounts* panels = nullptr;
  float* gates = nullptr;
  std::int32_t panel_tokens = 0;
  std::size_t bytes = 0;

  Scratch(std::byte* base, const PleShape& shape, Arithmetic arithmetic, std::int32_t tokens,
          bool has_wgmma) {
    const PleTiles tiles(shape);
    const auto count = static_cast<std::size_t>(tokens);
    const auto hidden = static_cast<std::size_t>(shape.hidden);
    const auto streams = static_cast<std::size_t>(shape.stream_count);
    Carver carver(base);
    panel_tokens = panel_tokens_of(arithmetic, tokens);
    const std::int32_t whole_panels = (tokens + panel_tokens - 1) / panel_tokens * panel_tokens;
    embeddings = carver.take<std::uint16_t>(tiles.embedding_bytes(whole_panels) / 2);
    values = carver.take<std::byte>(count * hidden * (arithmetic == Arithmetic::float32 ? 4 : 2));
    if (arithmetic == Arithmetic::reference) {
      keys = carver.take<std::uint16_t>(static_cast<std::size_t>(panel_tokens) * streams * hidden);
      panels = carver.take<PleStepCounts>(kMaxPanels);
    } else {
      sums.sums_per_group = sums_per_group(has_wgmma, tokens);
      sums.data = carver.take<ColumnSums>(count * static_cast<std::size_t>(tiles.group_count) *
                                          static_cast<std::size_t>(sums.sums_per_group));
    }
    gates = carver.take<float>(count * 2 * streams);
    bytes = carver.used();
  }
};

// step: what the gather reads, in pinned memory where copy brings it to the device.
Status gather(const PleShape& shape, const RowView& rows, const PleStepView& step,
              const StepCopy& copy, const Scratch& scratch, std::int32_t token_capacity,
              cudaStream_t stream) {
  return gather_embeddings_cuda({.rows = rows,
                                 .copy = copy,
                                 .slots = step.slots,
                                 .embeddings = scratch.embeddings,
                                 .embed_dim = shape.embed_dim,
                                 .column_count = shape.column_count,
                                 .token_capacity = token_capacity},
                                stream);
}

// The whole product, without a highway.
ProjectArgs project_args(const PleShape& shape, Arithmetic arithmetic,
                         const PleWeightsCuda& weights, const PleStepView& step,
                         const Scratch& scratch, std::int32_t token_capacity) {
  ProjectArgs args;
  args.shape = shape;
  args.arithmetic = arithmetic;
  args.counts = step.counts;
  args.embeddings = scratch.embeddings;
  args.projection = weights.projection;
  args.gate_scale = weights.gate_scale;
  args.bias = weights.vectors.key_bias;
  args.values = scratch.values;
  args.keys = scratch.keys;
  args.sums = scratch.sums;
  args.token_capacity = token_capacity;
  args.group_end = PleTiles(shape).group_count;
  return args;
}

GateArgs gate_args(const PleLayerCudaArgs& args, const PleStepView& step, const Scratch& scratch) {
  return {.shape = args.shape,
          .highway_type = args.highway_type,
          .counts = step.counts,
          .sums = scratch.sums,
          .keys = scratch.keys,
          .values = scratch.values,
          .highway = args.highway,
          .vectors = args.weights.vectors,
          .gates = scratch.gates,
          .token_capacity = args.token_capacity};
}

Status project(const CudaTraits& traits, ProjectArgs args, cudaStream_t stream) {
  args.multiprocessor_count = traits.multiprocessor_count;
  const bool is_overlapped = traits.has_overlapped_launch();
  if (!traits.has_wgmma()) return project_mma_cuda(args, is_overlapped, stream);
  if (args.token_capacity <= kMaxSlicedTokens) {
    return project_sliced_wgmma_cuda(args, is_overlapped, stream);
  }
  return project_tiled_wgmma_cuda(args, is_overlapped, stream);
}

// The product and the gates in reference. The panels of a long step take turns in the keys' memory.
Status project_reference(const PleLayerCudaArgs& args, const PleStepView& step,
                         const Scratch& scratch, cudaStream_t stream) {
  const bool is_overlapped = args.traits.has_overlapped_launch();
  const PleTiles tiles(args.shape);
  ProjectArgs product =
      project_args(args.shape, args.arithmetic, args.weights, step, scratch, scratch.panel_tokens);
  GateArgs gate = gate_args(args, step, scratch);
  gate.token_capacity = scratch.panel_tokens;
  if (scratch.panel_tokens < args.token_capacity) {
    PLE_TRY(count_panels_cuda(step.counts, scratch.panels, scratch.panel_tokens, is_overlapped,
                              stream));
    product.counts = scratch.panels;
    gate.counts = scratch.panels;
  }
  const std::int64_t hidden = args.shape.hidden;
  const std::int64_t element_bytes = args.highway_type == HighwayType::f32 ? 4 : 2;
  for (std::int32_t begin = 0; begin < args.token_capacity; begin += scratch.panel_tokens) {
    PLE_TRY(project(args.traits, product, stream));
    PLE_TRY(gate_reference_cuda(gate, is_overlapped, stream));
    const std::int64_t values = scratch.panel_tokens * hidden;
    product.embeddings += tiles.embedding_bytes(scratch.panel_tokens) / sizeof(std::uint16_t);
    product.values = static_cast<std::uint16_t*>(product.values) + values;
    ++product.counts;
    gate.values = product.values;
    gate.highway = static_cast<const std::byte*>(gate.highway) +
                   values * args.shape.stream_count * element_bytes;
    gate.gates += std::int64_t{2} * scratch.panel_tokens * args.shape.stream_count;
    ++gate.counts;
  }
  return {};
}

Status project_and_gate(const PleLayerCudaArgs& args, const PleStepView& step,
                        const Scratch& scratch, bool is_gate_fused, cudaStream_t stream) {
  ProjectArgs product =
      project_args(args.shape, args.arithmetic, args.weights, step, scratch, args.token_capacity);
  product.highway_type = args.highway_type;
  product.highway = args.highway;
  PLE_TRY(project(args.traits, product, stream));
  if (is_gate_fused) return {};
  return gate_cuda(gate_args(args, step, scratch), args.traits.has_overlapped_launch(), stream);
}

}  // namespace

std::size_t ple_layer_scratch_bytes_cuda(const PleShape& shape, Arithmetic arithmetic,
                                         std::int32_t token_capacity) {
  const auto bytes = [&](std::int32_t tokens) {
    return Scratch(nullptr, shape, arithmetic, tokens, true).bytes;
  };
  return std::max(bytes(token_capacity), bytes(std::min(token_capacity, kMaxSliceSumTokens)));
}

Status ple_layer_cuda(const PleLayerCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_ple_shape_cuda(args.shape));
  if (args.token_capacity == 0) return {};
  const Scratch scratch(args.scratch, args.shape, args.arithmetic, args.token_capacity,
                        args.traits.has_wgmma());
  const PleStepView step =
      PleStepBlock::view(args.step, args.shape, args.token_capacity, args.span_capacity);
  const bool is_overlapped = args.traits.has_overlapped_launch();
  const bool is_reference = args.arithmetic == Arithmetic::reference;
  const bool is_gate_fused = !is_reference && args.token_capacity <= kMaxFusedGateTokens;

  StepCopy copy;
  PleStepView asked = step;
  if (args.pinned_step != nullptr) {
    asked = PleStepBlock::view(const_cast<std::byte*>(args.pinned_step), args.shape,
                               args.token_capacity, args.span_capacity);
    const std::ptrdiff_t bytes = reinterpret_cast<const std::byte*>(step.slots) - args.step;
    copy = {reinterpret_cast<const uint4*>(args.pinned_step), reinterpret_cast<uint4*>(args.step),
            static_cast<std::int32_t>(bytes / static_cast<std::ptrdiff_t>(sizeof(uint4)))};
  }
  PLE_TRY(gather(args.shape, args.rows, asked, copy, scratch, args.token_capacity, stream));
  PLE_TRY(is_reference ? project_reference(args, step, scratch, stream)
                       : project_and_gate(args, step, scratch, is_gate_fused, stream));
  const MixArgs mix{.shape = args.shape,
                    .arithmetic = args.arithmetic,
                    .highway_type = args.highway_type,
                    .output_mode = args.output_mode,
                    .step = step,
                    .vectors = args.weights.vectors,
                    .values = scratch.values,
                    .sums = scratch.sums,
                    .gates = is_gate_fused ? nullptr : scratch.gates,
                    .highway = args.highway,
                    .output = args.output,
                    .ring_length = args.ring_length,
                    .token_capacity = args.token_capacity,
                    .span_capacity = args.span_capacity,
                    .multiprocessor_count = args.traits.multiprocessor_count};
  return args.token_capacity <= kMaxMixedTokens ? mix_tokens_cuda(mix, is_overlapped, stream)
                                                : mix_chains_cuda(mix, is_overlapped, stream);
}

Status ple_rebuild_ring_cuda(const PleRebuildCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_ple_shape_cuda(args.shape));
  if (args.token_capacity == 0) return {};
  const PleTiles tiles(args.shape);
  const Scratch scratch(args.scratch, args.shape, args.arithmetic, args.token_capacity,
                        args.traits.has_wgmma());
  const PleStepView step = PleStepBlock::view(args.step, args.shape, args.token_capacity, 0);
  PLE_TRY(gather(args.shape, args.rows, step, {}, scratch, args.token_capacity, stream));
  ProjectArgs product =
      project_args(args.shape, args.arithmetic, args.weights, step, scratch, args.token_capacity);
  product.group_begin = args.shape.stream_count * tiles.groups_per_stream;
  PLE_TRY(project(args.traits, product, stream));
  return rebuild_entries_cuda({.shape = args.shape,
                               .arithmetic = args.arithmetic,
                               .counts = step.counts,
                               .sums = scratch.sums,
                               .values = scratch.values,
                               .gamma = args.gamma,
                               .ring = args.ring,
                               .ring_length = args.ring_length,
                               .entry_begin = args.entry_begin,
                               .token_capacity = args.token_capacity},
                              args.traits.has_overlapped_launch(), stream);
}

}  // namespace ple::kernels
