#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "cache/slot_sets.hpp"
#include "table/row_source.hpp"

namespace ple {

// A batch of reads that fills slots: filled and submitted by the step (or prefetch) that opened it,
// completed by whoever first needs it and finds it done, shared by the steps that joined it. It
// outlives the step that opened it, since others may count on its rows.
//
// References: one of the load itself until its slots are settled (ready or empty again), one of the
// step that opened it, one of each step that joined or placed it. Without any it can be opened
// again.
class RowLoad {
 public:
  // landing is null where the host sees the slots.
  RowLoad(std::uint32_t index, std::size_t rows_max, std::shared_ptr<RowReadBatch> batch,
          std::unique_ptr<SlotMemory> landing);

  std::uint32_t index() const { return index_; }  // as in marks
  std::size_t rows_max() const { return rows_max_; }

  // Takes an idle load, with the opener's reference. Opening excludes itself and settle_unattended.
  void open(bool prefetch);
  // Adds a row for an arena slot that was claimed, or for a staging slot. destination is where the
  // host sees that slot, null for landing memory.
  void add(RowId row, const Claim& claim, std::byte* destination, std::uint32_t slot_bytes);
  // Starts the reads. Without success, as after give_up, every claim is abandoned.
  Status submit(RowSource& source, SlotSets& sets);
  void give_up(SlotSets& sets, const Status& reason);

  // False if the load is over.
  bool try_reference();
  void drop_reference(SlotSets& sets);

  // Whether complete would return at once.
  bool done() const;
  // Waits for the reads and settles what can be: rows that did not come leave their slots empty;
  // the others are ready, or in device memory wait to be placed. The first failure.
  Status complete(std::chrono::nanoseconds deadline, SlotSets& sets);

  // In device memory, complete: gives the sink the rows of arena slots unless that was done before,
  // and of staging slots if the caller is the step that opened the load. Under one lock for the
  // whole cache.
  Status place(PlacementSink& sink, const RowView& view, bool opened_by_caller, SlotSets& sets);

  // Completes a load that is done and that no step refers to. What landed for a step that was given
  // up is dropped; what was prefetched waits for the next step to place it.
  void settle_unattended(SlotSets& sets);

  bool is_idle() const { return references_.load(std::memory_order_acquire) == 0; }
  bool is_prefetch() const { return is_prefetch_.load(std::memory_order_relaxed); }
  // Whether it is a prefetch that came in and is not placed.
  bool is_unplaced_prefetch() const;

 private:
  enum class Phase : std::uint8_t { open, reading, complete };

  static constexpr std::int32_t kDropping = -1;  // a reference count that nobody can raise

  // Whether it landed for a step that was given up.
  bool is_unwanted() const;
  void drop_unplaced(SlotSets& sets);
  void settle(SlotSets& sets) PLE_REQUIRES(mutex_);
  void finish(const Status& status) PLE_REQUIRES(mutex_);

  const std::uint32_t index_;
  const std::size_t rows_max_;
  const std::shared_ptr<RowReadBatch> batch_;
  const std::unique_ptr<SlotMemory> landing_;

  std::atomic<std::int32_t> references_ = 0;
  std::atomic<Phase> phase_ = Phase::complete;
  std::atomic<bool> is_prefetch_ = false;
  std::atomic<bool> is_placed_ = true;  // no arena slot waits for a placement

  // The opener's alone while open; then under mutex_; constant once complete, but for is_placed_.
  std::vector<RowRead> reads_;
  std::vector<Claim> claims_;          // [reads_]; once complete, those that wait to be placed
  std::vector<Placement> placements_;  // rows that came, arena slots first
  std::size_t arena_placement_count_ = 0;

  Mutex mutex_;
  ConditionVariable submitted_;
  Status outcome_ PLE_GUARDED_BY(mutex_);
};

// All loads of a cache, numbered for the marks.
class RowLoads {
 public:
  RowLoads(RowSource& source, SlotSets& sets, SlotMemoryFactory landing_memory,
           std::uint32_t slot_bytes)
      : source_(source),
        sets_(sets),
        landing_memory_(std::move(landing_memory)),
        slot_bytes_(slot_bytes) {}
  // Takes the reads in flight back.
  ~RowLoads();

  // Makes one more load of this size, so that open finds one.
  Status reserve(std::size_t rows_max) PLE_EXCLUDES(mutex_);

  // An open load for up to rows_max rows of a step; settles the loads that are done and that nobody
  // waits for.
  Result<RowLoad*> open(std::size_t rows_max) PLE_EXCLUDES(mutex_);
  // The same for a prefetch; null while prefetches_max of them are under way.
  Result<RowLoad*> open_prefetch(std::size_t rows_max, std::size_t prefetches_max)
      PLE_EXCLUDES(mutex_);

  RowLoad& at(std::uint32_t index) { return *loads_[index]; }

  // Prefetches that are in but not placed, each with a reference.
  void reference_unplaced_prefetches(std::vector<RowLoad*>& loads) PLE_EXCLUDES(mutex_);

  // Held while a step places loads.
  Mutex& placement_mutex() { return placement_mutex_; }

 private:
  Result<RowLoad*> make(std::size_t rows_max) PLE_REQUIRES(mutex_);
  std::size_t settle_and_count_prefetches() PLE_REQUIRES(mutex_);
  Result<RowLoad*> open_idle(std::size_t rows_max, bool prefetch) PLE_REQUIRES(mutex_);

  RowSource& source_;
  SlotSets& sets_;
  const SlotMemoryFactory landing_memory_;  // null where the host sees the slots
  const std::uint32_t slot_bytes_;

  Mutex mutex_;
  Mutex placement_mutex_;
  std::size_t count_ PLE_GUARDED_BY(mutex_) = 0;
  std::array<std::unique_ptr<RowLoad>, SlotMark::kLoadIndexCount> loads_;  // only ever appended to
};

}  // namespace ple
