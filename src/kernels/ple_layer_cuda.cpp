#include "kernels/ple_layer_cuda.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/carver.hpp"
#include "kernels/ple_stages_cuda.hpp"

namespace ple::kernels {

namespace {

// Up to here the last stage has a block for each token and 256 channels; then blocks of tokens,
// which share their gates. Both take the gates from the product's sums themselves. Above, the last
// stage walks chains.
constexpr std::int32_t kMaxSingleTokens = 8;
constexpr std::int32_t kMaxBlockTokens = 256;

// Tokens whose embeddings and keys are held at once: in reference half of those of all but short
// steps.
std::int32_t panel_tokens_of(Arithmetic arithmetic, std::int32_t token_capacity) {
  constexpr std::int32_t kLeast = 32;
  constexpr std::int32_t kTileRows = 8;
  if (arithmetic != Arithmetic::reference || token_capacity <= kLeast) return token_capacity;
  const std::int32_t half = (token_capacity + kMaxPanels - 1) / kMaxPanels;
  return std::max(kLeast, (half + kTileRows - 1) / kTileRows * kTileRows);
}

std::int64_t value_bytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 ? 4 : 2;
}

struct Scratch {
  std::uint16_t* embeddings = nullptr;  // of a panel
  std::byte* values = nullptr;
  TokenSums sums;
  std::uint16_t* keys = nullptr;  // of a panel, in reference
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
    embeddings = carver.take<std::uint16_t>(TokenRows::bytes(panel_tokens, tiles.chunk_count) / 2);
    values =
        carver.take<std::byte>(count * hidden * static_cast<std::size_t>(value_bytes(arithmetic)));
    if (arithmetic == Arithmetic::reference) {
      keys = carver.take<std::uint16_t>(static_cast<std::size_t>(panel_tokens) * streams * hidden);
      panels = carver.take<PleStepCounts>(kMaxPanels);
    } else {
      sums.sums_per_group = sums_per_group(has_wgmma, tokens);
      sums.data = carver.take<ColumnSums>(
          count * static_cast<std::size_t>(sums_per_token(tiles, sums.sums_per_group)));
    }
    gates = carver.take<float>(count * 2 * streams);
    bytes = carver.used();
  }
};

// What all panels of a step are made of.
struct PanelSource {
  const PleShape& shape;
  Arithmetic arithmetic;
  const CudaTraits& traits;
  const PleWeightsCuda& weights;
  const RowView& rows;
  PleStepView step;
  PleStepView asked;  // where the gather finds slots: in pinned memory where copy brings the rest
  StepCopy copy;
  const Scratch& scratch;
  std::int32_t token_capacity;
};

// Of a step or a rebuild; it refers to all three.
template <class Args>
PanelSource source_of(const Args& args, const PleStepView& step, const Scratch& scratch) {
  return {.shape = args.shape,
          .arithmetic = args.arithmetic,
          .traits = args.traits,
          .weights = args.weights,
          .rows = args.rows,
          .step = step,
          .asked = step,
          .copy = {},
          .scratch = scratch,
          .token_capacity = args.token_capacity};
}

// Some of a step's tokens, as they stand in the memory of all.
struct Panel {
  std::int32_t begin = 0;
  std::int32_t token_capacity = 0;
  const PleStepCounts* counts = nullptr;
  void* values = nullptr;
};

Status gather(const PanelSource& from, const Panel& panel, cudaStream_t stream) {
  const std::int64_t first_slot = std::int64_t{panel.begin} * from.shape.column_count;
  return gather_embeddings_cuda(
      {.rows = from.rows,
       .copy = panel.begin == 0 ? from.copy : StepCopy{},
       .slots = from.asked.slots + first_slot,
       .embeddings = from.scratch.embeddings,
       .embed_dim = from.shape.embed_dim,
       .column_count = from.shape.column_count,
       .token_capacity = panel.token_capacity,
       .is_packed = has_packed_rows(from.traits.has_wgmma(), from.shape, panel.token_capacity)},
      stream);
}

// The whole product, without a highway.
ProjectArgs project_args(const PanelSource& from, const Panel& panel) {
  ProjectArgs args;
  args.shape = from.shape;
  args.arithmetic = from.arithmetic;
  args.counts = panel.counts;
  args.embeddings = from.scratch.embeddings;
  args.projection = from.weights.projection;
  args.gate_scale = from.weights.gate_scale;
  args.bias = from.weights.vectors.key_bias;
  args.values = panel.values;
  args.keys = from.scratch.keys;
  args.sums = from.scratch.sums;
  args.token_capacity = panel.token_capacity;
  args.is_packed = has_packed_rows(from.traits.has_wgmma(), from.shape, panel.token_capacity);
  args.group_end = PleTiles(from.shape).group_count;
  args.multiprocessor_count = from.traits.multiprocessor_count;
  return args;
}

Status project(const CudaTraits& traits, const ProjectArgs& args, cudaStream_t stream) {
  const bool is_overlapped = traits.has_overlapped_launch();
  if (!traits.has_wgmma()) return project_mma_cuda(args, is_overlapped, stream);
  if (has_few_product(true, args.shape, args.token_capacity)) {
    return project_few_wgmma_cuda(args, is_overlapped, stream);
  }
  if (args.token_capacity <= kMaxSlicedTokens) {
    return project_sliced_wgmma_cuda(args, is_overlapped, stream);
  }
  return project_tiled_wgmma_cuda(args, is_overlapped, stream);
}

// Gathers each panel of the step in turn, which takes the memory of the one before, and lets finish
// go on with it.
template <class Finish>
Status for_each_panel(const PanelSource& from, cudaStream_t stream, const Finish& finish) {
  const std::int32_t panel_tokens = from.scratch.panel_tokens;
  const bool is_whole = panel_tokens >= from.token_capacity;
  Panel panel{.counts = is_whole ? from.step.counts : from.scratch.panels,
              .values = from.scratch.values};
  for (; panel.begin < from.token_capacity; panel.begin += panel_tokens) {
    panel.token_capacity = std::min(panel_tokens, from.token_capacity - panel.begin);
    PLE_TRY(gather(from, panel, stream));
    if (panel.begin == 0 && !is_whole) {
      PLE_TRY(count_panels_cuda(from.step.counts, from.scratch.panels, panel_tokens,
                                from.traits.has_overlapped_launch(), stream));
    }
    PLE_TRY(finish(panel));
    ++panel.counts;
    panel.values = static_cast<std::byte*>(panel.values) +
                   std::int64_t{panel_tokens} * from.shape.hidden * value_bytes(from.arithmetic);
  }
  return {};
}

// The product of a panel and, unless the last stage takes them, its gates.
Status project_and_gate(const PleLayerCudaArgs& args, const PanelSource& from, const Panel& panel,
                        bool is_gate_fused, cudaStream_t stream) {
  const bool is_overlapped = args.traits.has_overlapped_launch();
  const std::int64_t streams = args.shape.stream_count;
  const std::int64_t element_bytes = args.highway_type == HighwayType::f32 ? 4 : 2;
  const void* const highway = static_cast<const std::byte*>(args.highway) +
                              panel.begin * streams * args.shape.hidden * element_bytes;
  ProjectArgs product = project_args(from, panel);
  product.highway_type = args.highway_type;
  if (args.arithmetic != Arithmetic::reference) product.highway = highway;
  PLE_TRY(project(args.traits, product, stream));
  if (is_gate_fused) return {};
  const GateArgs gate{.shape = args.shape,
                      .highway_type = args.highway_type,
                      .counts = panel.counts,
                      .sums = from.scratch.sums,
                      .keys = from.scratch.keys,
                      .values = panel.values,
                      .highway = highway,
                      .vectors = args.weights.vectors,
                      .gates = from.scratch.gates + panel.begin * 2 * streams,
                      .token_capacity = panel.token_capacity};
  return args.arithmetic == Arithmetic::reference ? gate_reference_cuda(gate, is_overlapped, stream)
                                                  : gate_cuda(gate, is_overlapped, stream);
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
  const bool is_gate_fused =
      args.arithmetic != Arithmetic::reference && args.token_capacity <= kMaxBlockTokens;

  PanelSource from = source_of(args, step, scratch);
  if (args.pinned_step != nullptr) {
    from.asked = PleStepBlock::view(const_cast<std::byte*>(args.pinned_step), args.shape,
                                    args.token_capacity, args.span_capacity);
    const std::ptrdiff_t bytes = reinterpret_cast<const std::byte*>(step.slots) - args.step;
    from.copy = {reinterpret_cast<const uint4*>(args.pinned_step),
                 reinterpret_cast<uint4*>(args.step),
                 static_cast<std::int32_t>(bytes / static_cast<std::ptrdiff_t>(sizeof(uint4)))};
  }
  PLE_TRY(for_each_panel(from, stream, [&](const Panel& panel) {
    return project_and_gate(args, from, panel, is_gate_fused, stream);
  }));
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
  if (args.token_capacity <= kMaxSingleTokens) return mix_tokens_cuda(mix, is_overlapped, stream);
  if (args.token_capacity <= kMaxBlockTokens) return mix_blocks_cuda(mix, is_overlapped, stream);
  return mix_chains_cuda(mix, is_overlapped, stream);
}

Status ple_rebuild_ring_cuda(const PleRebuildCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_ple_shape_cuda(args.shape));
  if (args.token_capacity == 0) return {};
  const Scratch scratch(args.scratch, args.shape, args.arithmetic, args.token_capacity,
                        args.traits.has_wgmma());
  const PleStepView step = PleStepBlock::view(args.step, args.shape, args.token_capacity, 0);
  const PanelSource from = source_of(args, step, scratch);
  PLE_TRY(for_each_panel(from, stream, [&](const Panel& panel) {
    ProjectArgs product = project_args(from, panel);
    product.group_begin = PleTiles(args.shape).key_group_count();
    return project(args.traits, product, stream);
  }));
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
