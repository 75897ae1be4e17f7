#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/id_map.hpp"
#include "cache/set_cache.hpp"

namespace ple {

// The StagedRows of a SetCache.
class StepRows final : public StagedRows {
 public:
  StepRows(SharedRows& shared, std::size_t ids_max, std::unique_ptr<SlotMemory> staging);
  ~StepRows() override { release(); }

  // RowCache::stage for this step; the ids are checked.
  Status stage(std::span<const RowId> ids);
  bool belongs_to(const SharedRows& shared) const { return &shared == &shared_; }

  std::span<const SlotId> slots() const override { return {slots_.data(), id_count_}; }
  RowView view() const override { return shared_.view(staging_.get()); }
  bool has_moved() const override { return second_load_ != nullptr; }
  bool ready() override;
  Status wait() override;
  Status place(PlacementSink& sink) override;
  void release() override;

 private:
  struct JoinedRow {
    RowId row;
    SlotId slot;
  };

  void lease_hits(std::span<const RowId> ids);
  Status fetch_misses(std::span<const RowId> ids);
  SlotId resolve_miss(RowId row);
  SlotId resolve_in_set(RowId row);
  bool join(SlotId slot, RowId row);
  SlotId claim_way(RowId row);
  SlotId put_in_staging(RowLoad& load, RowId row);
  void count_rows();
  std::uint64_t count_never_fresh();

  Status wait_for_loads();
  Status read_again(std::chrono::nanoseconds deadline);

  SharedRows& shared_;
  const std::unique_ptr<SlotMemory> staging_;  // [ids_max] slots
  std::vector<SlotId> slots_;                  // [ids_max], the first id_count_ are of this step
  std::vector<std::uint32_t> misses_;          // indices of ids that were not found at first
  std::vector<SlotId> shared_slots_;           // found leased by a later step, each time
  std::vector<JoinedRow> joined_rows_;         // on their way for other steps
  std::vector<RowLoad*> joined_loads_;         // these steps' loads, a reference each
  std::vector<RowLoad*> placed_loads_;         // prefetches that this step placed, likewise
  IdMap map_;                                  // in stage: rows in staging or joined; then slots

  bool is_staged_ = false;
  std::size_t id_count_ = 0;
  std::uint64_t epoch_ = 0;         // 0: the step has no leases, all its rows are in staging
  RowLoad* load_ = nullptr;         // of this step's missing rows
  RowLoad* second_load_ = nullptr;  // of joined rows that failed
  std::uint32_t staging_count_ = 0;
  bool is_waited_ = false;
  bool is_placed_ = false;
  Status outcome_;  // of wait
  RowCacheMetrics counted_;
};

}  // namespace ple
