#include "cache/cache_support.hpp"
#include "cache/fake_device.hpp"

namespace ple::test {
namespace {

using Delivery = FakeRowSource::Delivery;
using Fault = FakeRowSource::Fault;

// Stages, waits, places and waits for the copies.
void stage_on_device(RowCache& cache, const FakeRowSource& source, FakePlacementStream& stream,
                     StagedRows& staged, std::span<const RowId> ids) {
  ASSERT_TRUE(cache.stage(ids, staged).is_ok());
  ASSERT_TRUE(staged.wait().is_ok());
  ASSERT_TRUE(staged.place(stream).is_ok());
  stream.wait_for_latest_event();
  EXPECT_TRUE(rows_are_right(source, staged, ids));
}

TEST(DeviceRows, ArePlacedOnce) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  const auto cache = open_cache(source, 64, device_options());
  const auto staged = make_staged(*cache, 64);
  ASSERT_TRUE(cache->stage(row_range(0, 20), *staged).is_ok());
  EXPECT_EQ(staged->place(stream).code(), StatusCode::wrong_state);
  ASSERT_TRUE(staged->wait().is_ok());
  ASSERT_TRUE(staged->place(stream).is_ok());
  ASSERT_TRUE(staged->place(stream).is_ok());
  EXPECT_EQ(stream.copy_count(), 20);
  stream.wait_for_latest_event();
  EXPECT_TRUE(rows_are_right(source, *staged, row_range(0, 20)));
  staged->release();
  stage_on_device(*cache, source, stream, *staged, row_range(10, 30));
  EXPECT_EQ(cache->metrics().rows_hit, 10);
}

TEST(DeviceRows, StagedBesideTheArenaArePlacedInStaging) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  for (const std::uint64_t slot_count : {0, 16}) {
    const auto cache = open_cache(source, slot_count, device_options());
    const auto staged = make_staged(*cache, 64);
    for (RowId begin = 0; begin < 200; begin += 40) {
      stage_on_device(*cache, source, stream, *staged, row_range(begin, begin + 40));
      staged->release();
    }
  }
}

TEST(DeviceRows, OfAJoinedLoadArePlacedByWhoeverComesFirst) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 16, device_options());
  const auto first = make_staged(*cache, 64);
  const auto second = make_staged(*cache, 64);
  ASSERT_TRUE(cache->stage(row_range(0, 20), *first).is_ok());  // 16 in slots, 4 in staging
  stage_on_device(*cache, source, stream, *second, row_range(3, 5));
  ASSERT_TRUE(first->wait().is_ok());
  ASSERT_TRUE(first->place(stream).is_ok());
  EXPECT_EQ(stream.copy_count(), 4);  // the second step has placed the others
  stream.wait_for_latest_event();
  EXPECT_TRUE(rows_are_right(source, *first, row_range(0, 20)));
}

TEST(DeviceRows, StayJoinableAfterTheirStepWasGivenUp) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 64, device_options());
  const auto first = make_staged(*cache, 64);
  const auto second = make_staged(*cache, 64);
  ASSERT_TRUE(cache->stage(row_range(0, 8), *first).is_ok());
  ASSERT_TRUE(cache->stage(row_range(0, 8), *second).is_ok());
  ASSERT_TRUE(first->wait().is_ok());
  first->release();
  // The first step's landing memory is not used again while the second needs it.
  ASSERT_TRUE(cache->stage(row_range(20, 28), *first).is_ok());
  ASSERT_TRUE(first->wait().is_ok());
  ASSERT_TRUE(second->wait().is_ok());
  ASSERT_TRUE(second->place(stream).is_ok());
  stream.wait_for_latest_event();
  EXPECT_TRUE(rows_are_right(source, *second, row_range(0, 8)));
}

TEST(DeviceRows, ThatNobodyPlacedAreForgotten) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  const auto cache = open_cache(source, 64, device_options());
  const auto staged = make_staged(*cache, 64);
  for (int attempt = 0; attempt < 5; ++attempt) {
    ASSERT_TRUE(cache->stage(row_range(0, 8), *staged).is_ok());
    ASSERT_TRUE(staged->wait().is_ok());
    staged->release();
  }
  EXPECT_EQ(cache->metrics().rows_missed, 40);
  stage_on_device(*cache, source, stream, *staged, row_range(0, 8));
}

TEST(DeviceRows, PlacementThatFailsCanBeTriedAgain) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  const auto cache = open_cache(source, 64, device_options());
  const auto staged = make_staged(*cache, 64);
  ASSERT_TRUE(cache->stage(row_range(0, 8), *staged).is_ok());
  ASSERT_TRUE(staged->wait().is_ok());
  stream.fail_next();
  EXPECT_EQ(staged->place(stream).message(), "copy refused");
  ASSERT_TRUE(staged->place(stream).is_ok());
  stream.wait_for_latest_event();
  EXPECT_TRUE(rows_are_right(source, *staged, row_range(0, 8)));
}

TEST(DeviceRows, PrefetchedArePlacedByTheNextStep) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  const auto cache = open_cache(source, 256, device_options());
  const auto staged = make_staged(*cache, 64);
  ASSERT_TRUE(cache->prefetch(row_range(100, 120)).is_ok());
  stage_on_device(*cache, source, stream, *staged, row_range(0, 8));
  staged->release();
  ASSERT_TRUE(cache->stage(row_range(100, 120), *staged).is_ok());
  ASSERT_TRUE(staged->wait().is_ok());
  ASSERT_TRUE(staged->place(stream).is_ok());
  EXPECT_EQ(stream.copy_count(), 0);
  EXPECT_TRUE(rows_are_right(source, *staged, row_range(100, 120)));
  EXPECT_EQ(cache->metrics().rows_hit, 20);
}

TEST(DeviceRows, FailedReadLeavesTheOthersToBeAskedAgain) {
  FakeRowSource source(1000, kRowBytes);
  FakePlacementStream stream;
  const auto cache = open_cache(source, 64, device_options());
  const auto staged = make_staged(*cache, 64);
  source.set_fault([](RowId row) { return row == 5 ? Fault::fail : Fault::none; });
  ASSERT_TRUE(cache->stage(row_range(0, 8), *staged).is_ok());
  EXPECT_EQ(staged->wait().message(), "row 5 cannot be read");
  EXPECT_EQ(staged->place(stream).message(), "row 5 cannot be read");
  staged->release();
  source.set_fault({});
  stage_on_device(*cache, source, stream, *staged, row_range(0, 8));
}

TEST(DeviceRows, ResidentTableIsUploadedAtOpen) {
  FakeRowSource source(40'000, kRowBytes);
  FakePlacementStream stream;
  RowCacheOptions options = device_options();
  options.resident = true;
  const auto cache = open_cache(source, 0, options);
  const auto staged = make_staged(*cache, 64);
  stage_on_device(*cache, source, stream, *staged, row_range(39'940, 40'000));
}

}  // namespace
}  // namespace ple::test
