#include "engine/cuda_layer.hpp"

#include <cstring>
#include <utility>

#include "base/error.hpp"
#include "device/cuda_check.hpp"
#include "engine/weights.hpp"

namespace ple {

Result<AlignedDeviceBuffer> AlignedDeviceBuffer::allocate(std::size_t bytes) {
  AlignedDeviceBuffer buffer;
  PLE_TRY_ASSIGN(buffer.memory_, DeviceBuffer::allocate(bytes + kAlignment));
  return buffer;
}

std::byte* AlignedDeviceBuffer::data() const {
  const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
  return memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
}

Status upload_tensor(const ModelSpec& model, const TensorRef& tensor, std::byte* to,
                     cudaStream_t stream) {
  const std::uint64_t row_bytes = tensor.bytes / static_cast<std::uint64_t>(tensor.shape.front());
  return for_each_row_block(
      model, tensor, [&](std::int64_t begin, std::int64_t count, const std::byte* rows) -> Status {
        PLE_TRY(copy_async(to + static_cast<std::uint64_t>(begin) * row_bytes, rows,
                           static_cast<std::uint64_t>(count) * row_bytes, stream));
        PLE_CUDA_TRY(cudaStreamSynchronize(stream));  // the rows' memory is used again
        return {};
      });
}

Result<DeviceBuffer> upload_tensor(const ModelSpec& model, const TensorRef& tensor,
                                   cudaStream_t stream) {
  PLE_TRY_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(tensor.bytes));
  PLE_TRY(upload_tensor(model, tensor, buffer.data(), stream));
  return buffer;
}

// Runs and captured runs find their batch in blocks of their own, so that an eager run never
// writes what a graph may be reading.
struct CudaLayer::Workspace : LayerWorkspace {
  std::int32_t tokens_max = 0;
  std::int32_t sequences_max = 0;
  PinnedBuffer run_block;
  PinnedBuffer graph_block;
  DeviceBuffer block;
  AlignedDeviceBuffer scratch;
  DeviceBuffer host_input;  // copies of what lies in pageable host memory; they grow
  DeviceBuffer host_output;
  std::uint64_t batch_number = 0;  // of the batch in run_block; 0: none
};

Result<std::unique_ptr<LayerWorkspace>> CudaLayer::make_workspace(
    std::int32_t tokens_max, std::int32_t sequences_max) const {
  PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
  auto workspace = std::make_unique<Workspace>();
  workspace->tokens_max = tokens_max;
  workspace->sequences_max = sequences_max;
  const std::size_t bytes = block_bytes(tokens_max, sequences_max);
  PLE_TRY_ASSIGN(workspace->run_block, PinnedBuffer::allocate(bytes));
  PLE_TRY_ASSIGN(workspace->graph_block, PinnedBuffer::allocate(bytes));
  PLE_TRY_ASSIGN(workspace->block, DeviceBuffer::allocate(bytes));
  PLE_TRY_ASSIGN(workspace->scratch, AlignedDeviceBuffer::allocate(scratch_bytes(tokens_max)));
  std::memset(workspace->graph_block.data(), 0, bytes);
  return std::unique_ptr<LayerWorkspace>(std::move(workspace));
}

std::int64_t CudaLayer::workspace_bytes(std::int64_t token_count) const {
  const auto tokens = static_cast<std::int32_t>(token_count);
  return static_cast<std::int64_t>(scratch_bytes(tokens) + block_bytes(tokens, 0));
}

Status CudaLayer::prepare(LayerWorkspace& layer_workspace, const LayerRun& run) const {
  auto& workspace = static_cast<Workspace&>(layer_workspace);
  write_block(run, workspace.graph_block.data(), workspace.tokens_max, workspace.sequences_max);
  return {};
}

namespace {

Status check_alignment(const char* name, const void* address) {
  constexpr std::uintptr_t kAlignment = 16;  // the kernels read whole vectors
  if (reinterpret_cast<std::uintptr_t>(address) % kAlignment == 0) return {};
  return error(StatusCode::invalid_argument, "{} at {} is not aligned to {} bytes", name,
               fmt::ptr(address), kAlignment);
}

}  // namespace

Status CudaLayer::run(LayerWorkspace& layer_workspace, const LayerRun& run) const {
  auto& workspace = static_cast<Workspace&>(layer_workspace);
  PLE_TRY_ASSIGN(const CudaScope scope, device_.enter());
  bool sees_input = true;
  if (traits_.input_elements != 0) {
    PLE_TRY_ASSIGN(sees_input, device_.is_device_address(run.input));
  }
  PLE_TRY_ASSIGN(const bool sees_output, device_.is_device_address(run.output));
  if (sees_input) PLE_TRY(check_alignment("input", run.input));
  if (sees_output) PLE_TRY(check_alignment("output", run.output));
  if (sees_input && sees_output) return enqueue_batch(workspace, run, run.input, run.output);
  if (run.is_captured) {
    return error(StatusCode::invalid_argument,
                 "input and output of a captured run must lie in device or pinned memory");
  }
  return run_on_copies(workspace, run, sees_input, sees_output);
}

Status CudaLayer::enqueue_batch(Workspace& workspace, const LayerRun& run, const void* input,
                                void* output) const {
  CudaRun cuda{.block = workspace.block.data(),
               .scratch = workspace.scratch.data(),
               .input = input,
               .output = output};
  if (run.is_captured) {
    cuda.pinned_block = workspace.graph_block.data();
    cuda.token_capacity = workspace.tokens_max;
    cuda.span_capacity = workspace.sequences_max;
  } else {
    cuda.pinned_block = workspace.run_block.data();
    cuda.token_capacity = static_cast<std::int32_t>(run.tokens.size());
    cuda.span_capacity = static_cast<std::int32_t>(run.spans.size());
    if (workspace.batch_number != run.batch_number) {
      write_block(run, workspace.run_block.data(), cuda.token_capacity, cuda.span_capacity);
      workspace.batch_number = run.batch_number;
    }
  }
  return enqueue(run, cuda);
}

// Returns when the output is there.
Status CudaLayer::run_on_copies(Workspace& workspace, const LayerRun& run, bool sees_input,
                                bool sees_output) const {
  const auto stream = static_cast<cudaStream_t>(run.stream);
  const auto bytes_of = [&](std::int64_t elements) {
    return run.tokens.size() * static_cast<std::size_t>(elements) *
           (run.element == Element::f32 ? 4 : 2);
  };
  const auto reserve = [](DeviceBuffer& copy, std::size_t bytes) -> Status {
    if (copy.bytes() >= bytes) return {};
    PLE_TRY_ASSIGN(copy, DeviceBuffer::allocate(bytes));
    return {};
  };
  const void* input = run.input;
  if (!sees_input) {
    const std::size_t bytes = bytes_of(traits_.input_elements);
    PLE_TRY(reserve(workspace.host_input, bytes));
    PLE_TRY(copy_async(workspace.host_input.data(), run.input, bytes, stream));
    input = workspace.host_input.data();
  }
  if (sees_output) {
    PLE_TRY(enqueue_batch(workspace, run, input, run.output));
  } else {
    const std::size_t bytes = bytes_of(traits_.output_elements);
    PLE_TRY(reserve(workspace.host_output, bytes));
    PLE_TRY(enqueue_batch(workspace, run, input, workspace.host_output.data()));
    PLE_TRY(copy_async(run.output, workspace.host_output.data(), bytes, stream));
  }
  PLE_CUDA_TRY(cudaStreamSynchronize(stream));
  return {};
}

}  // namespace ple
