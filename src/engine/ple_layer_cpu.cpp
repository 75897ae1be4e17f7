#include "engine/ple_layer_cpu.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"
#include "engine/layers_cpu.hpp"

namespace ple {

namespace {

using kernels::Arithmetic;
using kernels::PleRing;
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
        weights_(std::move(weights)),
        pool_(pool) {
    const std::int64_t highway = std::int64_t{shape.stream_count} * shape.hidden;
    traits_.input_elements = highway;
    traits_.output_elements = highway;
    traits_.window = shape.window();
    traits_.stream_count = shape.stream_count;
    traits_.value_bytes = static_cast<std::int32_t>(value_row_bytes() + gate_bytes());
    traits_.state_bytes = PleRing::bytes(shape, arithmetic_, ring_length_);
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

  // A position in a full snapshot: the value row as the ring keeps it, then q of every stream.
  Status save_state(const std::byte* state, std::span<const std::int32_t> entries,
                    SnapshotKind kind, SnapshotLayer& out) const override {
    const std::size_t gate_bytes = this->gate_bytes();
    const std::size_t row_bytes = value_row_bytes();
    out.stream_count = shape_.stream_count;
    out.value_bytes = kind == SnapshotKind::full ? traits_.value_bytes : 0;
    out.gates.resize(entries.size() * static_cast<std::size_t>(shape_.stream_count));
    out.values.resize(entries.size() * static_cast<std::size_t>(out.value_bytes));
    auto* gates = reinterpret_cast<std::byte*>(out.gates.data());
    std::byte* values = out.values.data();
    for (const std::int32_t entry : entries) {
      const std::byte* scalars = state + scalars_offset(entry);
      std::memcpy(gates, scalars, gate_bytes);
      gates += gate_bytes;
      if (kind == SnapshotKind::compact) continue;
      std::memcpy(values, state + static_cast<std::size_t>(entry) * row_bytes, row_bytes);
      std::memcpy(values + row_bytes, scalars + gate_bytes, gate_bytes);
      values += row_bytes + gate_bytes;
    }
    return {};
  }

  Status restore_state(std::byte* state, std::int32_t entry_begin, const SnapshotLayer& saved,
                       const RowView& rows, std::span<const SlotId> slots) const override {
    const auto entry_count = static_cast<std::int32_t>(
        saved.gates.size() / static_cast<std::size_t>(shape_.stream_count));
    if (saved.value_bytes == 0) return rebuild(state, entry_begin, entry_count, saved, rows, slots);
    const std::size_t gate_bytes = this->gate_bytes();
    const std::size_t row_bytes = value_row_bytes();
    const auto* gates = reinterpret_cast<const std::byte*>(saved.gates.data());
    const std::byte* values = saved.values.data();
    for (std::int32_t entry = entry_begin; entry < entry_begin + entry_count; ++entry) {
      std::byte* scalars = state + scalars_offset(entry);
      std::memcpy(scalars, gates, gate_bytes);
      std::memcpy(scalars + gate_bytes, values + row_bytes, gate_bytes);
      std::memcpy(state + static_cast<std::size_t>(entry) * row_bytes, values, row_bytes);
      gates += gate_bytes;
      values += row_bytes + gate_bytes;
    }
    return {};
  }

 private:
  std::size_t gate_bytes() const {
    return static_cast<std::size_t>(shape_.stream_count) * sizeof(float);
  }
  std::size_t value_row_bytes() const {
    return static_cast<std::size_t>(shape_.hidden) * (arithmetic_ == Arithmetic::float32 ? 4 : 2);
  }
  std::size_t scalars_offset(std::int32_t entry) const {
    return static_cast<std::size_t>(PleRing::value_bytes(shape_, arithmetic_, ring_length_)) +
           static_cast<std::size_t>(entry) * 2 * gate_bytes();
  }

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
