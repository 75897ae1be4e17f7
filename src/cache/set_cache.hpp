#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/epoch_window.hpp"
#include "cache/row_cache.hpp"
#include "cache/row_counters.hpp"
#include "cache/row_load.hpp"
#include "cache/slot_sets.hpp"

namespace ple {

// What the steps of a cache share.
struct SharedRows {
  SharedRows(RowSource& row_source, const RowCacheOptions& options,
             std::unique_ptr<SlotMemory> arena_memory, SlotSets slot_sets,
             std::uint32_t bytes_of_slot);

  RowView view(SlotMemory* staging) const;
  // Where the host sees a slot of the arena; nullptr in device memory.
  std::byte* host_slot(SlotId slot) const;

  RowSource& source;
  const std::chrono::nanoseconds read_deadline;
  const SlotMemoryFactory slot_memory;
  const std::uint32_t slot_bytes;
  const std::unique_ptr<SlotMemory> arena;
  SlotSets sets;
  EpochWindow epochs;
  RowCounters counters;
  RowLoads loads;  // last: takes its reads back before the arena goes
};

// The RowCache for tables larger than the arena.
class SetCache final : public RowCache {
 public:
  static Result<std::unique_ptr<RowCache>> open(RowSource& source, const RowCacheOptions& options);

  Result<std::unique_ptr<StagedRows>> make_staged(std::size_t ids_max) override;
  Status stage(std::span<const RowId> ids, StagedRows& staged) override;
  Result<std::size_t> prefetch(std::span<const RowId> ids, std::size_t prefetches_max) override;

  std::vector<RowId> hot_rows(std::size_t count) const override;
  RowCacheMetrics metrics() const override { return shared_.counters.read(); }
  std::uint32_t slot_count() const override { return shared_.sets.slot_count(); }
  std::size_t leases_outstanding() const override { return shared_.epochs.open_count(); }

  SetCache(RowSource& source, const RowCacheOptions& options, std::unique_ptr<SlotMemory> arena,
           SlotSets sets, std::uint32_t slot_bytes)
      : shared_(source, options, std::move(arena), std::move(sets), slot_bytes) {}

 private:
  // False when too many are under way.
  Result<bool> prefetch_chunk(std::span<const RowId> ids, std::size_t prefetches_max);

  SharedRows shared_;
};

}  // namespace ple
