#include "cache/row_load.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace ple {

RowLoad::RowLoad(std::uint32_t index, std::size_t rows_max, std::shared_ptr<RowReadBatch> batch,
                 std::unique_ptr<SlotMemory> landing)
    : index_(index), rows_max_(rows_max), batch_(std::move(batch)), landing_(std::move(landing)) {
  reads_.reserve(rows_max);
  claims_.reserve(rows_max);
  if (landing_ != nullptr) placements_.reserve(rows_max);
}

void RowLoad::open(bool prefetch) {
  PLE_ASSERT(is_idle());
  reads_.clear();
  claims_.clear();
  placements_.clear();
  is_prefetch_.store(prefetch, std::memory_order_relaxed);
  is_placed_.store(landing_ == nullptr, std::memory_order_relaxed);
  phase_.store(Phase::open, std::memory_order_relaxed);
  references_.store(2, std::memory_order_release);
}

void RowLoad::add(RowId row, const Claim& claim, std::byte* destination, std::uint32_t slot_bytes) {
  PLE_ASSERT(reads_.size() < rows_max_);
  if (landing_ != nullptr) {
    destination = landing_->host_address() + reads_.size() * slot_bytes;
  }
  reads_.push_back({.row = row, .destination = destination});
  claims_.push_back(claim);
}

Status RowLoad::submit(RowSource& source, SlotSets& sets) {
  // Memory may run out in the source.
  struct Rollback {
    RowLoad* load;
    SlotSets& sets;
    ~Rollback() {
      if (load != nullptr) load->give_up(sets, Status(StatusCode::out_of_memory));
    }
  } rollback{this, sets};
  Status status = source.submit(reads_, batch_);
  rollback.load = nullptr;
  if (!status.is_ok()) {
    give_up(sets, status);
    return status;
  }
  const MutexLock lock(mutex_);
  phase_.store(Phase::reading, std::memory_order_release);
  submitted_.notify_all();
  return {};
}

void RowLoad::give_up(SlotSets& sets, const Status& reason) {
  const MutexLock lock(mutex_);
  for (const Claim& claim : claims_) {
    if (claim.slot < sets.slot_count()) sets.abandon(claim);
  }
  claims_.clear();
  finish(reason);
  submitted_.notify_all();
}

bool RowLoad::try_reference() {
  std::int32_t count = references_.load(std::memory_order_relaxed);
  while (count > 0) {
    if (references_.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

void RowLoad::drop_reference(SlotSets& sets) {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 2) drop_unplaced(sets);
}

void RowLoad::settle_unattended(SlotSets& sets) {
  if (references_.load(std::memory_order_acquire) != 1 || !done()) return;
  static_cast<void>(complete(std::chrono::nanoseconds(0), sets));
  drop_unplaced(sets);
}

bool RowLoad::is_unwanted() const {
  return phase_.load(std::memory_order_acquire) == Phase::complete &&
         !is_placed_.load(std::memory_order_acquire) && !is_prefetch();
}

void RowLoad::drop_unplaced(SlotSets& sets) {
  std::int32_t own = 1;
  if (!is_unwanted() ||
      !references_.compare_exchange_strong(own, kDropping, std::memory_order_acq_rel)) {
    return;
  }
  // It may have been opened anew before nobody could join it any more: then it lives on.
  if (is_unwanted()) {
    for (const Claim& claim : claims_) sets.abandon(claim);
    own = 0;
  }
  references_.fetch_add(own - kDropping, std::memory_order_acq_rel);
}

bool RowLoad::done() const {
  const Phase phase = phase_.load(std::memory_order_acquire);
  return phase == Phase::complete || (phase == Phase::reading && batch_->done());
}

Status RowLoad::complete(std::chrono::nanoseconds deadline, SlotSets& sets) {
  const MutexLock lock(mutex_);
  while (phase_.load(std::memory_order_relaxed) == Phase::open) submitted_.wait(mutex_);
  if (phase_.load(std::memory_order_relaxed) == Phase::complete) return outcome_;
  Status status = batch_->wait(deadline);
  settle(sets);
  finish(status);
  return status;
}

void RowLoad::settle(SlotSets& sets) {
  const auto is_arena_slot = [&](SlotId slot) { return slot < sets.slot_count(); };
  std::size_t kept_count = 0;
  for (std::size_t index = 0; index < claims_.size(); ++index) {
    const Claim claim = claims_[index];
    if (!is_arena_slot(claim.slot)) continue;
    if (!batch_->arrived(index)) {
      sets.abandon(claim);
    } else if (landing_ == nullptr) {
      sets.publish(claim, is_prefetch());
    } else {
      placements_.push_back({static_cast<std::uint32_t>(index), claim.slot});
    }
  }
  arena_placement_count_ = placements_.size();
  if (landing_ == nullptr) return;
  for (std::size_t index = 0; index < claims_.size(); ++index) {
    const Claim claim = claims_[index];
    if (!batch_->arrived(index)) continue;
    if (is_arena_slot(claim.slot)) {
      claims_[kept_count++] = claim;
    } else {
      placements_.push_back({static_cast<std::uint32_t>(index), claim.slot});
    }
  }
  claims_.resize(kept_count);
}

void RowLoad::finish(const Status& status) {
  outcome_ = status;
  if (claims_.empty()) is_placed_.store(true, std::memory_order_release);
  const bool is_settled = is_placed_.load(std::memory_order_relaxed);
  phase_.store(Phase::complete, std::memory_order_release);
  if (is_settled) references_.fetch_sub(1, std::memory_order_acq_rel);
}

Status RowLoad::place(PlacementSink& sink, const RowView& view, bool opened_by_caller,
                      SlotSets& sets) {
  PLE_ASSERT(phase_.load(std::memory_order_acquire) == Phase::complete);
  std::span<const Placement> placements(placements_);
  if (!opened_by_caller) placements = placements.first(arena_placement_count_);
  const bool was_placed = is_placed_.load(std::memory_order_acquire);
  if (was_placed)
    placements = placements.subspan(std::min(placements.size(), arena_placement_count_));
  if (!placements.empty()) {
    PLE_TRY(sink.enqueue(view, landing_->kernel_address(), placements));
  }
  if (was_placed) return {};
  for (const Claim& claim : claims_) sets.publish(claim, is_prefetch());
  is_placed_.store(true, std::memory_order_release);
  references_.fetch_sub(1, std::memory_order_acq_rel);
  return {};
}

bool RowLoad::is_unplaced_prefetch() const {
  return is_prefetch() && !is_placed_.load(std::memory_order_acquire) &&
         phase_.load(std::memory_order_acquire) == Phase::complete;
}

RowLoads::~RowLoads() {
  for (const std::unique_ptr<RowLoad>& load : loads_) {
    if (load != nullptr && !load->done()) {
      static_cast<void>(load->complete(std::chrono::nanoseconds(0), sets_));
    }
  }
}

Result<RowLoad*> RowLoads::make(std::size_t rows_max) {
  if (count_ == loads_.size()) {
    return error(StatusCode::wrong_state, "{} batches of row reads are in flight", count_);
  }
  std::unique_ptr<SlotMemory> landing;
  if (landing_memory_ != nullptr) {
    PLE_TRY_ASSIGN(landing, landing_memory_(rows_max * slot_bytes_));
  }
  loads_[count_] = std::make_unique<RowLoad>(static_cast<std::uint32_t>(count_), rows_max,
                                             source_.make_batch(), std::move(landing));
  return loads_[count_++].get();
}

Status RowLoads::reserve(std::size_t rows_max) {
  const MutexLock lock(mutex_);
  const Result<RowLoad*> made = make(rows_max);
  return made.status();
}

Result<RowLoad*> RowLoads::open(std::size_t rows_max) {
  const MutexLock lock(mutex_);
  settle_and_count_prefetches();
  return open_idle(rows_max, false);
}

Result<RowLoad*> RowLoads::open_prefetch(std::size_t rows_max, std::size_t prefetches_max) {
  const MutexLock lock(mutex_);
  if (settle_and_count_prefetches() >= prefetches_max) return nullptr;
  return open_idle(rows_max, true);
}

std::size_t RowLoads::settle_and_count_prefetches() {
  std::size_t prefetch_count = 0;
  for (std::size_t index = 0; index < count_; ++index) {
    RowLoad& load = *loads_[index];
    load.settle_unattended(sets_);
    if (!load.is_idle() && load.is_prefetch()) ++prefetch_count;
  }
  return prefetch_count;
}

Result<RowLoad*> RowLoads::open_idle(std::size_t rows_max, bool prefetch) {
  RowLoad* fitting = nullptr;
  for (std::size_t index = 0; index < count_; ++index) {
    RowLoad& load = *loads_[index];
    if (load.is_idle() && load.rows_max() >= rows_max &&
        (fitting == nullptr || load.rows_max() < fitting->rows_max())) {
      fitting = &load;
    }
  }
  if (fitting == nullptr) {
    PLE_TRY_ASSIGN(fitting, make(std::bit_ceil(rows_max)));
  }
  fitting->open(prefetch);
  return fitting;
}

void RowLoads::reference_unplaced_prefetches(std::vector<RowLoad*>& loads) {
  const MutexLock lock(mutex_);
  for (std::size_t index = 0; index < count_; ++index) {
    RowLoad& load = *loads_[index];
    load.settle_unattended(sets_);
    if (load.is_unplaced_prefetch() && load.try_reference()) loads.push_back(&load);
  }
}

}  // namespace ple
