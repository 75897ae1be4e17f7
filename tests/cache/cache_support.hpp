#pragma once

#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "cache/row_cache.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/fake_row_source.hpp"

namespace ple::test {

inline constexpr std::int32_t kRowBytes = 48;

// A cache of slot_count slots over a source.
inline std::unique_ptr<RowCache> open_cache(RowSource& source, std::uint64_t slot_count,
                                            RowCacheOptions options = {}) {
  options.cache_bytes = slot_count * kRowBytes;
  Result<std::unique_ptr<RowCache>> cache = RowCache::open(source, options);
  EXPECT_TRUE(cache.is_ok()) << cache.status().message();
  return std::move(cache).value();
}

inline std::unique_ptr<StagedRows> make_staged(RowCache& cache, std::size_t ids_max) {
  Result<std::unique_ptr<StagedRows>> staged = cache.make_staged(ids_max);
  EXPECT_TRUE(staged.is_ok()) << staged.status().message();
  return std::move(staged).value();
}

inline const std::byte* address_of(const RowView& view, SlotId slot) {
  return slot < view.arena_slot_count
             ? view.arena + std::size_t{slot} * view.slot_bytes
             : view.staging + std::size_t{slot - view.arena_slot_count} * view.slot_bytes;
}

// Whether every id has its row in its slot, equal ids have equal slots and different ids different
// ones, and kNoRow has kZeroSlot.
inline testing::AssertionResult rows_are_right(const FakeRowSource& source,
                                               const StagedRows& staged,
                                               std::span<const RowId> ids) {
  if (staged.slots().size() != ids.size()) return testing::AssertionFailure() << "slot count";
  std::set<std::pair<RowId, SlotId>> pairs;
  std::set<RowId> rows;
  std::set<SlotId> slots;
  for (std::size_t index = 0; index < ids.size(); ++index) {
    const RowId row = ids[index];
    const SlotId slot = staged.slots()[index];
    if (row == kNoRow) {
      if (slot != kZeroSlot) return testing::AssertionFailure() << "no row has slot " << slot;
      continue;
    }
    pairs.insert({row, slot});
    rows.insert(row);
    slots.insert(slot);
    if (!source.is_row(address_of(staged.view(), slot), row)) {
      return testing::AssertionFailure() << "slot " << slot << " does not hold row " << row;
    }
  }
  if (pairs.size() != rows.size() || pairs.size() != slots.size()) {
    return testing::AssertionFailure()
           << rows.size() << " rows, " << slots.size() << " slots, " << pairs.size() << " pairs";
  }
  return testing::AssertionSuccess();
}

inline std::vector<RowId> row_range(RowId begin, RowId end) {
  std::vector<RowId> rows;
  for (RowId row = begin; row < end; ++row) rows.push_back(row);
  return rows;
}

// Stages, waits and checks.
inline void stage_rows(RowCache& cache, const FakeRowSource& source, StagedRows& staged,
                       std::span<const RowId> ids) {
  const Status status = cache.stage(ids, staged);
  ASSERT_TRUE(status.is_ok()) << status.message();
  const Status waited = staged.wait();
  ASSERT_TRUE(waited.is_ok()) << waited.message();
  EXPECT_TRUE(rows_are_right(source, staged, ids));
}

}  // namespace ple::test
