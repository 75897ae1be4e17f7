#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cache/row_cache.hpp"
#include "cache/row_counters.hpp"
#include "cache/row_requests.hpp"

namespace ple {

// The RowCache of a table that lies in the arena as a whole: slot = row, nothing to lease.
class ResidentCache final : public RowCache {
 public:
  static Result<std::unique_ptr<RowCache>> open(RowSource& source, const RowCacheOptions& options);

  Result<std::unique_ptr<StagedRows>> make_staged(std::size_t ids_max) override;
  Status stage(std::span<const RowId> ids, StagedRows& staged) override;
  Result<std::size_t> prefetch(std::span<const RowId> ids, std::size_t prefetches_max) override;

  std::vector<RowId> hot_rows(std::size_t) const override { return {}; }
  RowCacheMetrics metrics() const override { return counters_.read(); }
  std::uint32_t slot_count() const override {
    return static_cast<std::uint32_t>(source_.row_count());
  }
  std::size_t leases_outstanding() const override { return lease_count_.load(); }

  ResidentCache(RowSource& source, std::unique_ptr<SlotMemory> arena)
      : source_(source), slot_bytes_(slot_bytes_of(source.encoding())), arena_(std::move(arena)) {}

 private:
  class Rows;

  Status read_table(const RowCacheOptions& options);
  void count_rows(std::span<const SlotId> slots);

  RowSource& source_;
  const std::uint32_t slot_bytes_;
  const std::unique_ptr<SlotMemory> arena_;
  RowCounters counters_;
  std::atomic<std::size_t> lease_count_ = 0;
};

}  // namespace ple
