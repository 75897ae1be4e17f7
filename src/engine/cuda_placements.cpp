#include "engine/cuda_placements.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <utility>

#include "device/cuda_device.hpp"
#include "kernels/ple_layer_cuda.hpp"
#include "kernels/stream_flag_cuda.hpp"

namespace ple {

Result<std::unique_ptr<CudaPlacements>> CudaPlacements::create(std::int32_t device_index) {
  std::unique_ptr<CudaPlacements> placements(new CudaPlacements(device_index));
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index));
  PLE_TRY_ASSIGN(placements->stream_, CudaStream::create_preferred());
  const MutexLock lock(placements->mutex_);
  for (List& list : placements->lists_) {
    PLE_TRY_ASSIGN(list.is_read, CudaEvent::create());
  }
  return placements;
}

Result<CudaPlacements::List*> CudaPlacements::next_list(std::size_t rows_max) {
  List& list = lists_[turn_];
  turn_ = (turn_ + 1) % kListCount;
  PLE_TRY(list.is_read.synchronize());
  if (list.slots.bytes() < rows_max * sizeof(SlotId)) {
    PLE_TRY_ASSIGN(list.slots, PinnedBuffer::allocate(std::bit_ceil(rows_max) * sizeof(SlotId)));
  }
  return &list;
}

Status CudaPlacements::reserve(std::size_t rows_max) {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < kListCount; ++i) PLE_TRY(next_list(rows_max).status());
  return {};
}

Status CudaPlacements::enqueue(const RowView& view, const std::byte* landing,
                               std::span<const Placement> placements) {
  if (placements.empty()) return {};
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  std::size_t row_count = 0;
  for (const Placement& placement : placements) {
    row_count = std::max(row_count, std::size_t{placement.landing_index} + 1);
  }
  const MutexLock lock(mutex_);
  PLE_TRY_ASSIGN(List* const list, next_list(row_count));
  auto* const slots = list->slots.as<SlotId>();
  std::fill_n(slots, row_count, kZeroSlot);
  for (const Placement& placement : placements) slots[placement.landing_index] = placement.slot;
  PLE_TRY(kernels::place_rows_cuda({.rows = landing,
                                    .slots = slots,
                                    .arena = const_cast<std::byte*>(view.arena),
                                    .staging = const_cast<std::byte*>(view.staging),
                                    .arena_slot_count = view.arena_slot_count,
                                    .slot_bytes = view.slot_bytes,
                                    .row_count = static_cast<std::int64_t>(row_count)},
                                   stream_.get()));
  const Status recorded = list->is_read.record(stream_.get());
  if (!recorded.is_ok()) return stream_.synchronize();
  latest_ = list;
  return {};
}

Status CudaPlacements::join(cudaStream_t stream) {
  const MutexLock lock(mutex_);
  if (latest_ == nullptr) return {};
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  PLE_TRY_ASSIGN(const bool is_done, latest_->is_read.is_done());
  if (!is_done) return latest_->is_read.wait_on(stream);
  latest_ = nullptr;
  return {};
}

Status CudaPlacements::raise_flag(std::uint32_t* flag) {
  const MutexLock lock(mutex_);
  if (latest_ != nullptr) {
    PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
    if (kernels::raise_flag_cuda(flag, stream_.get()).is_ok()) return {};
    PLE_TRY(stream_.synchronize());
  }
  std::atomic_ref<std::uint32_t>(*flag).store(1, std::memory_order_release);
  return {};
}

}  // namespace ple
