#include "engine/async_cuda.hpp"

#include <atomic>
#include <chrono>
#include <future>
#include <utility>

#include "base/error.hpp"
#include "device/cuda_check.hpp"
#include "device/cuda_graph.hpp"
#include "engine/cuda_fence.hpp"
#include "kernels/gather_rows.hpp"
#include "kernels/ple_layer_cuda.hpp"
#include "kernels/stream_flag_cuda.hpp"

namespace ple {

namespace {

std::uint32_t* flag_of(SlotMemory& flag) {
  return reinterpret_cast<std::uint32_t*>(flag.kernel_address());
}

void store_flag(SlotMemory& flag, std::uint32_t value) {
  std::atomic_ref<std::uint32_t>(*flag_of(flag)).store(value, std::memory_order_release);
}

}  // namespace

Result<std::unique_ptr<AsyncCuda>> AsyncCuda::open(std::int32_t device_index) {
  PLE_TRY_ASSIGN(CudaTraits traits, cuda_traits(device_index));
  std::unique_ptr<AsyncCuda> device(new AsyncCuda(std::move(traits)));
  PLE_TRY_ASSIGN(const CudaScope scope, device->enter());
  PLE_TRY_ASSIGN(device->own_stream_, CudaStream::create());
  PLE_TRY_ASSIGN(device->placements_, CudaPlacements::create(device_index));
  PLE_TRY_ASSIGN(device->has_graph_wait_, device->probe_graph_wait());
  return device;
}

Result<bool> AsyncCuda::probe_graph_wait() {
  constexpr std::chrono::seconds kPatience(2);
  PLE_TRY_ASSIGN(const auto waited, make_flag());
  PLE_TRY_ASSIGN(const auto answer, make_flag());
  // Everything that a step launches while a graph waits is loaded before: loading code may wait for
  // the device.
  PLE_TRY_ASSIGN(const auto landing, memory_.make_pinned(16));
  PLE_TRY_ASSIGN(const auto slots, memory_.make_pinned(sizeof(SlotId)));
  *reinterpret_cast<SlotId*>(slots->host_address()) = kZeroSlot;
  PLE_TRY(kernels::place_rows_cuda({.rows = landing->kernel_address(),
                                    .slots = reinterpret_cast<SlotId*>(slots->kernel_address()),
                                    .slot_bytes = 16,
                                    .row_count = 1},
                                   placements_->stream()));
  PLE_TRY(kernels::raise_flag_cuda(flag_of(*answer), placements_->stream()));
  PLE_CUDA_TRY(cudaStreamSynchronize(placements_->stream()));
  store_flag(*answer, 0);

  PLE_TRY_ASSIGN(const CudaEvent end_of_graph, CudaEvent::create());
  Result<CudaGraph> graph = CudaGraph::capture(own_stream_.get(), [&]() -> Status {
    PLE_TRY(kernels::wait_flag_cuda(flag_of(*waited), own_stream_.get()));
    PLE_TRY(kernels::raise_flag_cuda(flag_of(*answer), own_stream_.get()));
    return end_of_graph.record_in_graph(own_stream_.get());
  });
  if (!graph.is_ok()) return false;
  // By the host after a while, so that the wait ends in any case; launching may wait for it too
  // (CUDA_LAUNCH_BLOCKING).
  std::promise<void> end;
  std::future<bool> is_late = std::async(std::launch::async, [&, ended = end.get_future()] {
    if (ended.wait_for(kPatience) == std::future_status::ready) return false;
    store_flag(*waited, 1);
    return true;
  });
  Status status = graph.value().launch(own_stream_.get());
  const Result<bool> was_done = end_of_graph.is_done();
  if (status.is_ok()) status = was_done.status();
  if (status.is_ok()) status = kernels::raise_flag_cuda(flag_of(*waited), placements_->stream());
  if (!status.is_ok()) store_flag(*waited, 1);
  const Status ended = own_stream_.synchronize();
  end.set_value();
  PLE_TRY(status);
  PLE_TRY(ended);
  const std::atomic_ref<std::uint32_t> written(*flag_of(*answer));
  return !is_late.get() && !was_done.value() && written.load(std::memory_order_acquire) == 1;
}

Result<bool> AsyncCuda::is_device_address(const void* address) const {
  cudaPointerAttributes attributes{};
  PLE_CUDA_TRY(cudaPointerGetAttributes(&attributes, address));
  if (attributes.type == cudaMemoryTypeUnregistered) return false;
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != traits_.device_index) {
    return error(StatusCode::invalid_argument,
                 "memory of device cuda:{} is given to an engine on cuda:{}", attributes.device,
                 traits_.device_index);
  }
  return true;
}

Result<std::unique_ptr<Fence>> AsyncCuda::make_fence() {
  return CudaFence::create(traits_.device_index, *placements_);
}

Result<bool> AsyncCuda::is_capturing(void* stream) {
  PLE_TRY_ASSIGN(const CudaScope scope, enter());
  return ple::is_capturing(static_cast<cudaStream_t>(stream));
}

Result<std::unique_ptr<SlotMemory>> AsyncCuda::make_flag() {
  PLE_TRY_ASSIGN(auto flag, memory_.make_pinned(sizeof(std::uint32_t)));
  store_flag(*flag, 0);
  return flag;
}

Status AsyncCuda::wait_for_flag(SlotMemory& flag, void* stream) {
  PLE_TRY_ASSIGN(const CudaScope scope, enter());
  return kernels::wait_flag_cuda(flag_of(flag), static_cast<cudaStream_t>(stream));
}

Status AsyncCuda::raise_flag(SlotMemory& flag) { return placements_->raise_flag(flag_of(flag)); }

void AsyncCuda::lower_flag(SlotMemory& flag) { store_flag(flag, 0); }

Status AsyncCuda::read_tokens(const TokenId* tokens, std::span<TokenId> out, void* stream) {
  const auto cuda_stream = static_cast<cudaStream_t>(stream);
  PLE_TRY_ASSIGN(const CudaScope scope, enter());
  PLE_TRY_ASSIGN(const bool is_captured, ple::is_capturing(cuda_stream));
  if (is_captured) {
    return error(
        StatusCode::wrong_state,
        "token ids on the device are copied back when they are staged, and their stream is "
        "being captured: copy them before, and stage outside of the capture");
  }
  PLE_TRY(copy_async(out.data(), tokens, out.size_bytes(), cuda_stream));
  PLE_CUDA_TRY(cudaStreamSynchronize(cuda_stream));
  return {};
}

Status AsyncCuda::read_slots(const RowView& view, std::span<const SlotId> slots, std::byte* out) {
  const auto row_bytes = static_cast<std::size_t>(view.encoding.row_bytes);
  PLE_TRY_ASSIGN(const CudaScope scope, enter());
  PLE_TRY(join_placements(own_stream_.get()));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    PLE_TRY(copy_async(out + i * row_bytes, kernels::row_bytes_of(view, slots[i]), row_bytes,
                       own_stream_.get()));
  }
  return own_stream_.synchronize();
}

Status AsyncCuda::wait_for_all() {
  PLE_TRY_ASSIGN(const CudaScope scope, enter());
  PLE_CUDA_TRY(cudaDeviceSynchronize());
  return {};
}

}  // namespace ple
