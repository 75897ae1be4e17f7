// A warm step allocates nothing: staging, waiting and releasing, hits and misses.

#include <array>
#include <numeric>
#include <thread>

#include "cache/cache_support.hpp"
#include "cache/hit_speed.hpp"
#include "support/allocation_count.hpp"

namespace ple::test {
namespace {

// Two steps in flight, walking over a table larger than the cache.
std::uint64_t allocations_of_steps(std::uint64_t slot_count, bool resident) {
  constexpr std::size_t kIds = 256;
  FakeRowSource source(4096, kRowBytes);
  const auto cache = open_cache(source, slot_count, {.resident = resident});
  const std::array staged = {make_staged(*cache, kIds), make_staged(*cache, kIds)};
  const auto step = [&](std::size_t index, std::span<const RowId> ids) {
    EXPECT_TRUE(cache->stage(ids, *staged[index]).is_ok());
    EXPECT_TRUE(staged[index]->wait().is_ok());
    staged[index ^ 1]->release();
  };
  std::vector<RowId> ids(kIds);
  std::uint64_t before = 0;
  for (std::size_t round = 0; round < 40; ++round) {
    if (round == 4) before = allocation_count();  // warm
    for (std::size_t i = 0; i < kIds; ++i) ids[i] = static_cast<RowId>((round * 97 + i / 2) % 4096);
    step(round % 2, ids);
  }
  return allocation_count() - before;
}

TEST(RowCacheAllocation, WarmStepsNeedNone) {
  EXPECT_EQ(allocations_of_steps(1024, false), 0);
  EXPECT_EQ(allocations_of_steps(64, false), 0);
}

TEST(RowCacheAllocation, WarmStepsNeedNoneWithoutSlots) {
  EXPECT_EQ(allocations_of_steps(0, false), 0);
}

TEST(RowCacheAllocation, WarmStepsNeedNoneWithAResidentTable) {
  EXPECT_EQ(allocations_of_steps(0, true), 0);
}

// In the second of two threads; what is measured in the first does not see it.
TEST(RowCacheAllocation, RunningOutInAThreadOfTheMeasurementIsItsFailure) {
  const std::thread::id own = std::this_thread::get_id();
  const auto make_ids = [&](std::uint64_t, std::span<RowId> ids) {
    if (std::this_thread::get_id() != own) fail_allocation_after(0);
    std::iota(ids.begin(), ids.end(), RowId{0});
  };
  const Result<HitSpeed> speed = measure_hit_speed({.arena_bytes = std::uint64_t{64} << 20,
                                                    .make_ids = make_ids,
                                                    .row_count = 131072,
                                                    .repeats = 1});
  EXPECT_EQ(speed.status().code(), StatusCode::out_of_memory);
}

}  // namespace
}  // namespace ple::test
