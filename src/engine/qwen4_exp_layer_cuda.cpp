#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "base/mutex.hpp"
#include "device/cuda_check.hpp"
#include "device/cuda_memory.hpp"
#include "engine/layers_cuda.hpp"
#include "engine/ple_ring_state.hpp"
#include "engine/weights.hpp"
#include "kernels/ple_layer_cuda.hpp"

namespace ple {

namespace {

using kernels::PleShape;
using kernels::PleStepBlock;
using kernels::PleWeightsCuda;

// Device memory at an address that the kernels' copies want.
class AlignedDeviceBuffer {
 public:
  static Result<AlignedDeviceBuffer> allocate(std::size_t bytes) {
    AlignedDeviceBuffer buffer;
    PLE_TRY_ASSIGN(buffer.memory_, DeviceBuffer::allocate(bytes + kAlignment));
    return buffer;
  }
  std::byte* data() const {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

 private:
  static constexpr std::size_t kAlignment = 1024;
  DeviceBuffer memory_;
};

// Runs and captured runs find their batch in blocks of their own, so that an eager run never
// writes what a graph may be reading.
class Workspace : public LayerWorkspace {
 public:
  std::int32_t tokens_max = 0;
  std::int32_t sequences_max = 0;
  PinnedBuffer run_block;
  PinnedBuffer graph_block;
  DeviceBuffer block;
  AlignedDeviceBuffer scratch;
  DeviceBuffer host_copy;          // of input and output in pageable host memory; grows
  std::uint64_t batch_number = 0;  // of the batch in run_block; 0: none
};

// What rebuilding a ring needs, for one caller at a time.
struct Rebuild {
  Mutex mutex;
  PinnedBuffer block;
  PinnedBuffer gamma;
  AlignedDeviceBuffer scratch;
};

void write_block(const LayerRun& run, std::int32_t column_count,
                 const kernels::PleStepView& block) {
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
  std::copy_n(run.slots.data(), run.tokens.size() * static_cast<std::size_t>(column_count),
              block.slots);
  *block.counts = {.token_count = static_cast<std::int32_t>(run.tokens.size()),
                   .span_count = span_count};
}

class Qwen4ExpLayerCuda : public Layer {
 public:
  Qwen4ExpLayerCuda(const PleShape& shape, const LayerOptions& options, AlignedDeviceBuffer weights,
                    AsyncCuda& device)
      : shape_(shape),
        arithmetic_(options.arithmetic),
        ring_length_(options.ring_length),
        ring_state_(shape, options.arithmetic, options.ring_length),
        weights_(std::move(weights)),
        device_(device) {
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

  std::int64_t workspace_bytes(std::int64_t token_count) const override {
    const auto tokens = static_cast<std::int32_t>(token_count);
    return static_cast<std::int64_t>(scratch_bytes(tokens) +
                                     PleStepBlock::bytes(shape_, tokens, 0));
  }

  Result<std::unique_ptr<LayerWorkspace>> make_workspace(
      std::int32_t tokens_max, std::int32_t sequences_max) const override {
    PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
    auto workspace = std::make_unique<Workspace>();
    workspace->tokens_max = tokens_max;
    workspace->sequences_max = sequences_max;
    const std::size_t bytes = PleStepBlock::bytes(shape_, tokens_max, sequences_max);
    PLE_TRY_ASSIGN(workspace->run_block, PinnedBuffer::allocate(bytes));
    PLE_TRY_ASSIGN(workspace->graph_block, PinnedBuffer::allocate(bytes));
    PLE_TRY_ASSIGN(workspace->block, DeviceBuffer::allocate(bytes));
    PLE_TRY_ASSIGN(workspace->scratch, AlignedDeviceBuffer::allocate(scratch_bytes(tokens_max)));
    std::memset(workspace->graph_block.data(), 0, bytes);  // an empty batch
    return std::unique_ptr<LayerWorkspace>(std::move(workspace));
  }

  Status prepare(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    auto& workspace = static_cast<Workspace&>(layer_workspace);
    write_block(run, shape_.column_count,
                PleStepBlock::view(workspace.graph_block.data(), shape_, workspace.tokens_max,
                                   workspace.sequences_max));
    return {};
  }

  Status run(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    auto& workspace = static_cast<Workspace&>(layer_workspace);
    PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
    PLE_TRY_ASSIGN(const bool sees_input, device_.is_device_address(run.input));
    bool sees_output = sees_input;
    if (run.output != run.input) {
      PLE_TRY_ASSIGN(sees_output, device_.is_device_address(run.output));
    }
    if (sees_input && sees_output) return enqueue(workspace, run, run.input, run.output);
    if (run.is_captured) {
      return error(StatusCode::invalid_argument,
                   "input and output of a captured run must lie in device or pinned memory");
    }
    return run_on_copy(workspace, run, sees_input, sees_output);
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
  std::size_t scratch_bytes(std::int32_t token_count) const {
    return kernels::ple_layer_scratch_bytes_cuda(shape_, arithmetic_, token_count);
  }

  Status enqueue(Workspace& workspace, const LayerRun& run, const void* input, void* output) const {
    kernels::PleLayerCudaArgs args;
    args.shape = shape_;
    args.arithmetic = arithmetic_;
    args.highway_type =
        run.element == Element::f32 ? kernels::HighwayType::f32 : kernels::HighwayType::bf16;
    args.output_mode = run.mode;
    args.traits = device_.traits();
    args.weights = PleWeightsCuda::view(weights_.data(), shape_);
    args.rows = run.rows;
    args.step = workspace.block.data();
    args.highway = input;
    args.output = output;
    args.scratch = workspace.scratch.data();
    args.ring_length = ring_length_;
    if (run.is_captured) {
      args.pinned_step = workspace.graph_block.data();
      args.token_capacity = workspace.tokens_max;
      args.span_capacity = workspace.sequences_max;
    } else {
      args.pinned_step = workspace.run_block.data();
      args.token_capacity = static_cast<std::int32_t>(run.tokens.size());
      args.span_capacity = static_cast<std::int32_t>(run.spans.size());
      if (workspace.batch_number != run.batch_number) {
        write_block(run, shape_.column_count,
                    PleStepBlock::view(workspace.run_block.data(), shape_, args.token_capacity,
                                       args.span_capacity));
        workspace.batch_number = run.batch_number;
      }
    }
    return kernels::ple_layer_cuda(args, static_cast<cudaStream_t>(run.stream));
  }

  // Input and output in pageable host memory go through the device's; returns when it is done.
  Status run_on_copy(Workspace& workspace, const LayerRun& run, bool sees_input,
                     bool sees_output) const {
    const auto stream = static_cast<cudaStream_t>(run.stream);
    const std::size_t bytes = run.tokens.size() *
                              static_cast<std::size_t>(traits_.output_elements) *
                              (run.element == Element::f32 ? 4 : 2);
    if (workspace.host_copy.bytes() < bytes) {
      PLE_TRY_ASSIGN(workspace.host_copy, DeviceBuffer::allocate(bytes));
    }
    std::byte* const copy = workspace.host_copy.data();
    if (!sees_input) PLE_TRY(copy_async(copy, run.input, bytes, stream));
    PLE_TRY(
        enqueue(workspace, run, sees_input ? run.input : copy, sees_output ? run.output : copy));
    if (!sees_output) PLE_TRY(copy_async(run.output, copy, bytes, stream));
    PLE_CUDA_TRY(cudaStreamSynchronize(stream));
    return {};
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
    PLE_TRY(
        kernels::ple_rebuild_ring_cuda({.shape = shape_,
                                        .arithmetic = arithmetic_,
                                        .traits = device_.traits(),
                                        .weights = PleWeightsCuda::view(weights_.data(), shape_),
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
  AlignedDeviceBuffer weights_;
  AsyncCuda& device_;
  mutable Rebuild rebuild_;
};

// A tensor of the checkpoint in device memory.
Result<DeviceBuffer> upload(const ModelSpec& model, const TensorRef& tensor, cudaStream_t stream) {
  PLE_TRY_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(tensor.bytes));
  const std::uint64_t row_bytes = tensor.bytes / static_cast<std::uint64_t>(tensor.shape.front());
  const auto copy = [&](std::int64_t begin, std::int64_t count, const std::byte* rows) {
    const cudaError_t copied =
        cudaMemcpyAsync(buffer.data() + static_cast<std::uint64_t>(begin) * row_bytes, rows,
                        static_cast<std::uint64_t>(count) * row_bytes, cudaMemcpyDefault, stream);
    if (copied != cudaSuccess) return cuda_status(copied, "cudaMemcpyAsync of weights");
    return cuda_status(cudaStreamSynchronize(stream), "cudaStreamSynchronize");  // rows are reused
  };
  PLE_TRY(for_each_row_block(model, tensor, copy));
  return buffer;
}

}  // namespace

Result<std::unique_ptr<Layer>> load_qwen4_exp_layer_cuda(const ModelSpec& model,
                                                         const LayerSpec& layer,
                                                         const LayerOptions& options,
                                                         AsyncCuda& device) {
  const auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  const PleShape shape = ple_shape_of(layer);
  PLE_TRY(kernels::check_ple_shape_cuda(shape));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  PLE_TRY_ASSIGN(const DeviceBuffer key, upload(model, parts.key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer value, upload(model, parts.value, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_key, upload(model, parts.norm_key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_query, upload(model, parts.norm_query, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_conv, upload(model, parts.norm_conv, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer conv, upload(model, parts.conv, stream));
  PLE_TRY_ASSIGN(AlignedDeviceBuffer weights,
                 AlignedDeviceBuffer::allocate(PleWeightsCuda::bytes(shape)));
  PLE_TRY(kernels::pack_ple_weights_cuda({.shape = shape,
                                          .key = key.as<std::uint16_t>(),
                                          .value = value.as<std::uint16_t>(),
                                          .vectors = {.norm_key = norm_key.as<std::uint16_t>(),
                                                      .norm_query = norm_query.as<std::uint16_t>(),
                                                      .norm_conv = norm_conv.as<std::uint16_t>(),
                                                      .conv = conv.as<std::uint16_t>()},
                                          .memory = weights.data()},
                                         stream));
  PLE_TRY(device.own_stream().synchronize());
  auto loaded = std::make_unique<Qwen4ExpLayerCuda>(shape, options, std::move(weights), device);
  PLE_TRY(loaded->make_rebuild());
  return std::unique_ptr<Layer>(std::move(loaded));
}

}  // namespace ple
