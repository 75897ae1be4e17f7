#include "engine/ple_layer_cuda.hpp"

#include <algorithm>
#include <utility>

#include "base/mutex.hpp"
#include "engine/cuda_layer.hpp"
#include "engine/ple_ring_state.hpp"

namespace ple {

namespace {

using kernels::PleShape;
using kernels::PleStepBlock;
using kernels::PleWeightsCuda;

// What rebuilding a ring needs, for one caller at a time.
struct Rebuild {
  Mutex mutex;
  PinnedBuffer block;
  PinnedBuffer gamma;
  AlignedDeviceBuffer scratch;
};

class PleLayerCuda : public CudaLayer {
 public:
  PleLayerCuda(const kernels::PackPleWeightsArgs& parts, const LayerOptions& options,
               AlignedDeviceBuffer memory, AsyncCuda& device)
      : CudaLayer(device),
        shape_(parts.shape),
        arithmetic_(options.arithmetic),
        ring_length_(options.ring_length),
        ring_state_(parts.shape, options.arithmetic, options.ring_length),
        memory_(std::move(memory)),
        weights_(PleWeightsCuda::view(memory_.data(), parts.shape, parts.vectors)) {
    traits_ = ring_state_.traits();
  }

  Status make_rebuild() {
    const std::int32_t window = std::max(shape_.window(), 1);
    PLE_TRY_ASSIGN(rebuild_.block, PinnedBuffer::allocate(PleStepBlock::bytes(shape_, window, 0)));
    PLE_TRY_ASSIGN(
        rebuild_.gamma,
        PinnedBuffer::allocate(static_cast<std::size_t>(window) *
                               static_cast<std::size_t>(shape_.stream_count) * sizeof(float)));
    PLE_TRY_ASSIGN(rebuild_.scratch, AlignedDeviceBuffer::allocate(scratch_bytes(window)));
    return {};
  }

  Status save_state(const std::byte* state, std::span<const std::int32_t> entries,
                    SnapshotKind kind, SnapshotLayer& out) const override {
    PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
    std::vector<std::byte> ring(static_cast<std::size_t>(traits_.state_bytes));
    PLE_TRY(copy_async(ring.data(), state, ring.size(), device_.own_stream().get()));
    PLE_TRY(device_.own_stream().synchronize());
    ring_state_.save(ring.data(), entries, kind, out);
    return {};
  }

  Status restore_state(std::byte* state, std::int32_t entry_begin, const SnapshotLayer& saved,
                       const RowView& rows, std::span<const SlotId> slots) const override {
    PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
    if (saved.value_bytes == 0) return rebuild(state, entry_begin, saved, rows, slots);
    std::vector<std::byte> ring(static_cast<std::size_t>(traits_.state_bytes));
    ring_state_.restore(ring.data(), entry_begin, saved);
    PLE_TRY(copy_async(state, ring.data(), ring.size(), device_.own_stream().get()));
    return device_.own_stream().synchronize();
  }

 private:
  std::size_t block_bytes(std::int32_t token_capacity, std::int32_t span_capacity) const override {
    return PleStepBlock::bytes(shape_, token_capacity, span_capacity);
  }

  void write_block(const LayerRun& run, std::byte* bytes, std::int32_t token_capacity,
                   std::int32_t span_capacity) const override {
    const kernels::PleStepView block =
        PleStepBlock::view(bytes, shape_, token_capacity, span_capacity);
    std::int32_t span_count = 0;
    for (const LayerSpan& span : run.spans) {
      if (span.staged.token_count == 0) continue;
      std::fill_n(block.token_span + span.token_begin, span.staged.token_count, span_count);
      block.spans[span_count++] = {.ring = span.state,
                                   .position = span.staged.position,
                                   .token_begin = span.token_begin,
                                   .token_count = span.staged.token_count,
                                   .cursor = span.staged.cursor,
                                   .write_count = span.staged.write_count};
    }
    const auto token_count = static_cast<std::int32_t>(run.tokens.size());
    for (std::int32_t token = token_count; token < token_capacity; ++token) {
      block.slots[std::int64_t{token} * shape_.column_count] = kNoTokenSlot;
    }
    std::copy(run.slots.begin(), run.slots.end(), block.slots);
    *block.counts = {.token_count = token_count, .span_count = span_count};
  }

  std::size_t scratch_bytes(std::int32_t token_capacity) const override {
    return kernels::ple_layer_scratch_bytes_cuda(shape_, arithmetic_, token_capacity);
  }

  Status enqueue(const LayerRun& run, const CudaRun& cuda) const override {
    return kernels::ple_layer_cuda({.shape = shape_,
                                    .arithmetic = arithmetic_,
                                    .highway_type = highway_type(run.element),
                                    .output_mode = run.mode,
                                    .traits = device_.traits(),
                                    .weights = weights_,
                                    .rows = run.rows,
                                    .step = cuda.block,
                                    .pinned_step = cuda.pinned_block,
                                    .highway = cuda.input,
                                    .output = cuda.output,
                                    .scratch = cuda.scratch,
                                    .ring_length = ring_length_,
                                    .token_capacity = cuda.token_capacity,
                                    .span_capacity = cuda.span_capacity},
                                   static_cast<cudaStream_t>(run.stream));
  }

  Status rebuild(std::byte* state, std::int32_t entry_begin, const SnapshotLayer& saved,
                 const RowView& rows, std::span<const SlotId> slots) const {
    const std::int32_t entry_count = ring_state_.entry_count(saved);
    const cudaStream_t stream = device_.own_stream().get();
    const MutexLock lock(rebuild_.mutex);
    const kernels::PleStepView block =
        PleStepBlock::view(rebuild_.block.data(), shape_, entry_count, 0);
    *block.counts = {.token_count = entry_count};
    std::copy(slots.begin(), slots.end(), block.slots);
    std::copy(saved.gates.begin(), saved.gates.end(), rebuild_.gamma.as<float>());
    PLE_TRY(device_.join_placements(stream));
    PLE_TRY(kernels::ple_rebuild_ring_cuda({.shape = shape_,
                                            .arithmetic = arithmetic_,
                                            .traits = device_.traits(),
                                            .weights = weights_,
                                            .rows = rows,
                                            .step = rebuild_.block.data(),
                                            .gamma = rebuild_.gamma.as<float>(),
                                            .ring = state,
                                            .scratch = rebuild_.scratch.data(),
                                            .ring_length = ring_length_,
                                            .entry_begin = entry_begin,
                                            .token_capacity = entry_count},
                                           stream));
    return device_.own_stream().synchronize();
  }

  PleShape shape_;
  kernels::Arithmetic arithmetic_;
  std::int32_t ring_length_;
  PleRingState ring_state_;
  AlignedDeviceBuffer memory_;
  PleWeightsCuda weights_;  // in memory_
  mutable Rebuild rebuild_;
};

}  // namespace

Result<std::unique_ptr<Layer>> make_ple_layer_cuda(kernels::PackPleWeightsArgs parts,
                                                   const LayerOptions& options, AsyncCuda& device) {
  PLE_TRY_ASSIGN(AlignedDeviceBuffer weights,
                 AlignedDeviceBuffer::allocate(PleWeightsCuda::bytes(parts.shape)));
  parts.memory = weights.data();
  PLE_TRY(kernels::pack_ple_weights_cuda(parts, device.own_stream().get()));
  PLE_TRY(device.own_stream().synchronize());
  auto layer = std::make_unique<PleLayerCuda>(parts, options, std::move(weights), device);
  PLE_TRY(layer->make_rebuild());
  return std::unique_ptr<Layer>(std::move(layer));
}

}  // namespace ple
