#include "engine/ple_layer_cpu.hpp"

#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "engine/layers_cpu.hpp"
#include "engine/ple_ring_state.hpp"

namespace ple {

namespace {

using kernels::Arithmetic;
using kernels::PleShape;
using kernels::PleSpan;

class Workspace : public LayerWorkspace {
 public:
  AlignedBuffer scratch;
  std::vector<PleSpan> spans;
};

class PleLayerCpu : public Layer {
 public:
  PleLayerCpu(const PleShape& shape, const LayerOptions& options, kernels::PleWeightsCpu weights,
              ThreadPool& pool)
      : shape_(shape),
        arithmetic_(options.arithmetic),
        ring_length_(options.ring_length),
        ring_state_(shape, options.arithmetic, options.ring_length),
        weights_(std::move(weights)),
        pool_(pool) {
    traits_ = ring_state_.traits();
    const std::int64_t highway = traits_.input_elements;
    const std::int64_t vector_count = 3 + shape.tap_count;
    const std::int64_t bias_count = weights_.key_bias() == nullptr ? 0 : highway + shape.hidden;
    traits_.dense_bytes = static_cast<std::uint64_t>(
        2 * ((highway + shape.hidden) * shape.embed_dim + highway * vector_count + bias_count));
  }

  std::int64_t workspace_bytes(std::int64_t token_count) const override {
    return static_cast<std::int64_t>(kernels::ple_layer_scratch_bytes_cpu(
        shape_, arithmetic_, static_cast<std::int32_t>(token_count)));
  }

  Result<std::unique_ptr<LayerWorkspace>> make_workspace(
      std::int32_t tokens_max, std::int32_t sequences_max) const override {
    auto workspace = std::make_unique<Workspace>();
    PLE_TRY_ASSIGN(workspace->scratch,
                   AlignedBuffer::allocate(static_cast<std::size_t>(workspace_bytes(tokens_max))));
    workspace->spans.reserve(static_cast<std::size_t>(sequences_max));
    return std::unique_ptr<LayerWorkspace>(std::move(workspace));
  }

  Status run(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    auto& workspace = static_cast<Workspace&>(layer_workspace);
    workspace.spans.clear();
    for (const LayerSpan& span : run.spans) {
      workspace.spans.push_back({.ring = span.state,
                                 .position = span.staged.position,
                                 .token_begin = span.token_begin,
                                 .token_count = span.staged.token_count,
                                 .cursor = span.staged.cursor,
                                 .write_count = span.staged.write_count});
    }
    kernels::PleLayerArgs args;
    args.shape = shape_;
    args.arithmetic = arithmetic_;
    args.highway_type = highway_type(run.element);
    args.output_mode = run.mode;
    args.rows = run.rows;
    args.slots = run.slots.data();
    args.highway = run.input;
    args.output = run.output;
    args.spans = workspace.spans.data();
    args.span_count = static_cast<std::int32_t>(workspace.spans.size());
    args.token_count = static_cast<std::int32_t>(run.tokens.size());
    args.ring_length = ring_length_;
    args.scratch = workspace.scratch.data();
    return kernels::ple_layer_cpu(args, weights_, pool_);
  }

  Status save_state(const std::byte* state, std::span<const std::int32_t> entries,
                    SnapshotKind kind, SnapshotLayer& out) const override {
    ring_state_.save(state, entries, kind, out);
    return {};
  }

  Status restore_state(std::byte* state, std::int32_t entry_begin, const SnapshotLayer& saved,
                       const RowView& rows, std::span<const SlotId> slots) const override {
    if (saved.value_bytes == 0) {
      return rebuild(state, entry_begin, ring_state_.entry_count(saved), saved, rows, slots);
    }
    ring_state_.restore(state, entry_begin, saved);
    return {};
  }

 private:
  Status rebuild(std::byte* state, std::int32_t entry_begin, std::int32_t entry_count,
                 const SnapshotLayer& saved, const RowView& rows,
                 std::span<const SlotId> slots) const {
    PLE_TRY_ASSIGN(AlignedBuffer scratch,
                   AlignedBuffer::allocate(
                       kernels::ple_rebuild_scratch_bytes_cpu(shape_, arithmetic_, entry_count)));
    kernels::PleRebuildArgs args;
    args.shape = shape_;
    args.arithmetic = arithmetic_;
    args.rows = rows;
    args.slots = slots.data();
    args.gamma = saved.gates.data();
    args.ring = state;
    args.ring_length = ring_length_;
    args.entry_begin = entry_begin;
    args.entry_count = entry_count;
    args.scratch = scratch.data();
    return kernels::ple_rebuild_ring_cpu(args, weights_, pool_);
  }

  PleShape shape_;
  Arithmetic arithmetic_;
  std::int32_t ring_length_;
  PleRingState ring_state_;
  kernels::PleWeightsCpu weights_;
  ThreadPool& pool_;
};

}  // namespace

std::unique_ptr<Layer> make_ple_layer_cpu(const kernels::PleShape& shape,
                                          const LayerOptions& options,
                                          kernels::PleWeightsCpu weights, ThreadPool& pool) {
  return std::make_unique<PleLayerCpu>(shape, options, std::move(weights), pool);
}

}  // namespace ple
