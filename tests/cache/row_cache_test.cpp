#include "cache/row_cache.hpp"

#include "cache/cache_support.hpp"

namespace ple::test {
namespace {

using Delivery = FakeRowSource::Delivery;
using Fault = FakeRowSource::Fault;

TEST(RowCache, GivesEveryIdItsRow) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 256);
  const auto staged = make_staged(*cache, 64);
  stage_rows(*cache, source, *staged, row_range(100, 150));
  staged->release();
  stage_rows(*cache, source, *staged, std::vector<RowId>{999, kNoRow, 0, 999, 120});
}

TEST(RowCache, ReadsARowOnceForAllItsDuplicates) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 256);
  const auto staged = make_staged(*cache, 4096);
  stage_rows(*cache, source, *staged, std::vector<RowId>(4096, 7));
  EXPECT_EQ(source.rows_submitted(), 1);
  EXPECT_EQ(cache->metrics().rows_asked, 4096);
  EXPECT_EQ(cache->metrics().rows_distinct, 1);
  EXPECT_EQ(cache->metrics().rows_missed, 1);
}

TEST(RowCache, CountsExactly) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 64);
  const auto staged = make_staged(*cache, 64);
  stage_rows(*cache, source, *staged, std::vector<RowId>{1, 2, 3, 2, 1, kNoRow});
  staged->release();
  stage_rows(*cache, source, *staged, std::vector<RowId>{3, 4, 3, 4, 5});
  const RowCacheMetrics metrics = cache->metrics();
  EXPECT_EQ(metrics.rows_asked, 10);
  EXPECT_EQ(metrics.rows_distinct, 6);
  EXPECT_EQ(metrics.rows_hit, 1);
  EXPECT_EQ(metrics.rows_missed, 5);
  EXPECT_EQ(metrics.rows_staged, 0);
  EXPECT_EQ(metrics.rows_evicted, 0);
}

TEST(RowCache, CountsRowsOnTheirWayForOthersAsHits) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 64);
  const auto warm = make_staged(*cache, 64);
  stage_rows(*cache, source, *warm, row_range(0, 8));
  warm->release();
  source.set_delivery(Delivery::at_wait);
  const auto early = make_staged(*cache, 64);
  const auto late = make_staged(*cache, 64);
  ASSERT_TRUE(cache->stage(std::vector<RowId>{0, 1, 9}, *early).is_ok());
  ASSERT_TRUE(cache->stage(std::vector<RowId>{0, 2, 9, 9, 0}, *late).is_ok());
  EXPECT_EQ(cache->metrics().rows_distinct, 8 + 3 + 3);
  EXPECT_EQ(cache->metrics().rows_hit, 2 + 3);
  EXPECT_EQ(cache->metrics().rows_missed, 8 + 1);
}

TEST(RowCache, NeverOverwritesALeasedSlot) {
  FakeRowSource source(10'000, kRowBytes);
  const auto cache = open_cache(source, 64);
  const auto holder = make_staged(*cache, 64);
  const auto other = make_staged(*cache, 256);
  const std::vector<RowId> held = row_range(0, 32);
  stage_rows(*cache, source, *holder, held);
  for (RowId begin = 100; begin < 9000; begin += 200) {
    stage_rows(*cache, source, *other, row_range(begin, begin + 200));
    other->release();
    ASSERT_TRUE(rows_are_right(source, *holder, held));
  }
}

TEST(RowCache, PutsRowsInStagingWhenEveryWayIsLeased) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 16);
  ASSERT_EQ(cache->slot_count(), 16);
  const auto staged = make_staged(*cache, 64);
  stage_rows(*cache, source, *staged, row_range(0, 40));
  EXPECT_EQ(cache->metrics().rows_missed, 40);
  EXPECT_EQ(cache->metrics().rows_staged, 24);
  const auto other = make_staged(*cache, 64);
  stage_rows(*cache, source, *other, row_range(500, 510));
  EXPECT_EQ(cache->metrics().rows_staged, 34);
}

TEST(RowCache, WorksWithoutAnySlot) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 0);
  EXPECT_EQ(cache->slot_count(), 0);
  const auto staged = make_staged(*cache, 64);
  for (int step = 0; step < 3; ++step) {
    stage_rows(*cache, source, *staged, std::vector<RowId>{5, 6, 5, kNoRow, 7});
    staged->release();
  }
  EXPECT_EQ(cache->metrics().rows_staged, 9);
  EXPECT_EQ(source.rows_submitted(), 9);
  EXPECT_TRUE(cache->prefetch(row_range(0, 10)).is_ok());
}

TEST(RowCache, AsLargeAsTheTableEvictsNothing) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 1 << 20);
  EXPECT_EQ(cache->slot_count(), 1008);
  const auto staged = make_staged(*cache, 1000);
  stage_rows(*cache, source, *staged, row_range(0, 1000));
  staged->release();
  stage_rows(*cache, source, *staged, row_range(0, 1000));
  EXPECT_EQ(source.rows_submitted(), 1000);
  EXPECT_EQ(cache->metrics().rows_staged, 0);
}

TEST(RowCache, RefusesWhatItCannotStage) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 64);
  const auto staged = make_staged(*cache, 4);
  EXPECT_EQ(cache->stage(std::vector<RowId>{3, 1000}, *staged).message(),
            "row 1000 of a table of 1000 rows");
  EXPECT_EQ(cache->stage(row_range(0, 5), *staged).message(),
            "a step of 5 row ids, where 4 were reserved; room for it costs 240 bytes");
  EXPECT_EQ(cache->leases_outstanding(), 0);
  ASSERT_TRUE(cache->stage(row_range(0, 2), *staged).is_ok());
  EXPECT_EQ(cache->stage(row_range(0, 2), *staged).code(), StatusCode::wrong_state);
  EXPECT_EQ(cache->leases_outstanding(), 1);
  const auto stranger = open_cache(source, 64);
  EXPECT_EQ(stranger->stage(row_range(0, 2), *staged).code(), StatusCode::invalid_argument);
  staged->release();
  staged->release();
  EXPECT_EQ(cache->leases_outstanding(), 0);
}

TEST(RowCache, IsReadyWhenTheLastRowHasCome) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  const auto cache = open_cache(source, 64);
  const auto staged = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 3), *staged).is_ok());
  EXPECT_FALSE(staged->ready());
  source.deliver(2);
  source.deliver(0);
  EXPECT_FALSE(staged->ready());
  source.deliver(0);
  EXPECT_TRUE(staged->ready());
  EXPECT_TRUE(staged->wait().is_ok());
  EXPECT_TRUE(rows_are_right(source, *staged, row_range(0, 3)));
}

TEST(RowCache, FailedReadFailsItsStepAndFreesTheSlot) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 16);
  const auto staged = make_staged(*cache, 32);
  source.set_fault([](RowId row) { return row == 5 ? Fault::fail : Fault::none; });
  ASSERT_TRUE(cache->stage(row_range(0, 16), *staged).is_ok());
  EXPECT_EQ(staged->wait().message(), "row 5 cannot be read");
  EXPECT_EQ(staged->wait().message(), "row 5 cannot be read");
  staged->release();
  EXPECT_EQ(cache->leases_outstanding(), 0);
  source.set_fault({});
  stage_rows(*cache, source, *staged, row_range(0, 16));
  EXPECT_EQ(cache->metrics().rows_hit, 15);
  EXPECT_EQ(cache->metrics().rows_evicted, 0);
}

TEST(RowCache, RefusedSubmitLeasesNothing) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 16);
  const auto staged = make_staged(*cache, 32);
  source.fail_next_submit();
  EXPECT_EQ(cache->stage(row_range(0, 20), *staged).message(), "20 reads refused");
  EXPECT_EQ(cache->leases_outstanding(), 0);
  stage_rows(*cache, source, *staged, row_range(0, 20));
}

TEST(RowCache, LateReadFailsItsStepAloneAfterTheDeadline) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 64);
  const auto slow = make_staged(*cache, 32);
  const auto other = make_staged(*cache, 32);
  source.set_fault([](RowId row) { return row == 3 ? Fault::hang : Fault::none; });
  ASSERT_TRUE(cache->stage(row_range(0, 8), *slow).is_ok());
  stage_rows(*cache, source, *other, row_range(20, 30));
  EXPECT_EQ(slow->wait().code(), StatusCode::deadline);
  slow->release();
  source.set_fault({});
  stage_rows(*cache, source, *slow, row_range(0, 8));
  EXPECT_TRUE(rows_are_right(source, *other, row_range(20, 30)));
}

TEST(RowCache, ReleaseBeforeTheRowsCameLeavesThemToOthers) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  const auto cache = open_cache(source, 64);
  const auto first = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 3), *first).is_ok());
  first->release();
  EXPECT_EQ(cache->leases_outstanding(), 0);
  ASSERT_TRUE(cache->stage(row_range(1, 5), *first).is_ok());
  source.deliver_all();
  EXPECT_TRUE(first->wait().is_ok());
  EXPECT_TRUE(rows_are_right(source, *first, row_range(1, 5)));
  EXPECT_EQ(source.rows_submitted(), 5);
}

TEST(RowCache, ReleaseTakesReadsIntoStagingBack) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  const auto cache = open_cache(source, 0);
  const auto staged = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 3), *staged).is_ok());
  staged->release();
  EXPECT_EQ(source.pending_count(), 0);
}

TEST(RowCache, JoinsAReadInFlight) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 64);
  const auto first = make_staged(*cache, 8);
  const auto second = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 4), *first).is_ok());
  stage_rows(*cache, source, *second, std::vector<RowId>{2, 3, 2});
  EXPECT_EQ(source.rows_submitted(), 4);
  EXPECT_TRUE(first->wait().is_ok());
  EXPECT_EQ(first->slots()[2], second->slots()[0]);
}

TEST(RowCache, ReadsAJoinedRowItselfWhenTheOtherStepsReadFailed) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  const auto cache = open_cache(source, 64);
  const auto first = make_staged(*cache, 8);
  const auto second = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 4), *first).is_ok());
  const std::vector<RowId> ids = {2, 3, 3, 2};
  ASSERT_TRUE(cache->stage(ids, *second).is_ok());
  source.set_fault([](RowId row) { return row == 3 ? Fault::fail : Fault::none; });
  source.deliver_all();
  source.set_fault({});
  EXPECT_FALSE(second->ready());
  source.deliver_all();
  EXPECT_TRUE(second->ready());
  EXPECT_TRUE(second->wait().is_ok());
  EXPECT_TRUE(rows_are_right(source, *second, ids));
  EXPECT_EQ(first->wait().message(), "row 3 cannot be read");
  EXPECT_EQ(cache->metrics().rows_reread, 1);
  first->release();
  second->release();
  EXPECT_EQ(cache->leases_outstanding(), 0);
}

TEST(RowCache, JoinedRowThatFailsAgainFailsTheStep) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  source.set_fault([](RowId row) { return row == 3 ? Fault::fail : Fault::none; });
  const auto cache = open_cache(source, 64);
  const auto first = make_staged(*cache, 8);
  const auto second = make_staged(*cache, 8);
  ASSERT_TRUE(cache->stage(row_range(0, 4), *first).is_ok());
  ASSERT_TRUE(cache->stage(row_range(2, 6), *second).is_ok());
  EXPECT_EQ(second->wait().message(), "row 3 cannot be read");
}

TEST(RowCache, PrefetchedRowsAreHits) {
  FakeRowSource source(1000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 64);
  ASSERT_TRUE(cache->prefetch(std::vector<RowId>{1, 2, 3, 2, kNoRow}).is_ok());
  EXPECT_EQ(cache->metrics().rows_prefetched, 3);
  const auto staged = make_staged(*cache, 8);
  stage_rows(*cache, source, *staged, row_range(1, 4));
  EXPECT_EQ(cache->metrics().rows_hit, 3);
  EXPECT_EQ(source.rows_submitted(), 3);
}

TEST(RowCache, PrefetchSparesLeasedSlotsAndDropsWhatFindsNone) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 16);
  const auto staged = make_staged(*cache, 16);
  stage_rows(*cache, source, *staged, row_range(0, 12));
  ASSERT_TRUE(cache->prefetch(row_range(100, 120)).is_ok());
  EXPECT_EQ(cache->metrics().rows_prefetched, 4);
  EXPECT_TRUE(rows_are_right(source, *staged, row_range(0, 12)));
  EXPECT_EQ(cache->prefetch(std::vector<RowId>{1000}).status().code(),
            StatusCode::invalid_argument);
}

TEST(RowCache, PrefetchSaysHowFarItCame) {
  FakeRowSource source(10'000, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  const auto cache = open_cache(source, 10'000);
  const std::vector<RowId> rows = row_range(0, 5000);
  const std::size_t seen = cache->prefetch(rows, 2).value();
  EXPECT_EQ(seen, source.rows_submitted());
  EXPECT_LT(seen, rows.size());
  const std::span<const RowId> rest = std::span(rows).subspan(seen);
  EXPECT_EQ(cache->prefetch(rest, 2).value(), 0U);
  source.deliver_all();
  EXPECT_EQ(cache->prefetch(rest, 2).value(), rest.size());
  EXPECT_EQ(cache->metrics().rows_prefetched, rows.size());
}

TEST(RowCache, NamesItsHottestRows) {
  FakeRowSource source(1000, kRowBytes);
  const auto cache = open_cache(source, 64);
  const auto staged = make_staged(*cache, 64);
  for (const std::vector<RowId>& ids : {row_range(0, 20), row_range(3, 5), row_range(4, 5)}) {
    stage_rows(*cache, source, *staged, ids);
    staged->release();
  }
  EXPECT_EQ(cache->hot_rows(2), (std::vector<RowId>{4, 3}));
  EXPECT_EQ(cache->hot_rows(100).size(), 20);
}

TEST(RowCache, EpochsWrapAround) {
  FakeRowSource source(64, kRowBytes);
  const auto cache = open_cache(source, 32);
  const auto staged = make_staged(*cache, 32);
  const auto pass = [&](std::span<const RowId> ids, std::uint32_t step_count) {
    for (std::uint32_t step = 0; step < step_count; ++step) {
      ASSERT_TRUE(cache->stage(ids, *staged).is_ok());
      staged->release();
    }
  };
  const std::vector<RowId> busy = {20};
  // Rows that nobody touched for more than half the range of epochs do not pass for leased ...
  pass(row_range(0, 32), 1);
  pass(busy, 600'000);
  stage_rows(*cache, source, *staged, row_range(32, 63));
  staged->release();
  EXPECT_EQ(cache->metrics().rows_staged, 0);
  // ... and are still there after the wrap.
  pass(busy, 1);
  const std::vector<RowId> rows = cache->hot_rows(32);
  const std::uint64_t missed_before = cache->metrics().rows_missed;
  pass(busy, 600'000);
  stage_rows(*cache, source, *staged, rows);
  EXPECT_EQ(cache->metrics().rows_missed, missed_before);
}

TEST(RowCache, StepHeldForLongSendsOthersToStaging) {
  FakeRowSource source(64, kRowBytes);
  const auto cache = open_cache(source, 32);
  const auto holder = make_staged(*cache, 16);
  const auto staged = make_staged(*cache, 16);
  stage_rows(*cache, source, *holder, row_range(0, 8));
  for (int step = 0; step < 70'000; ++step) {
    ASSERT_TRUE(cache->stage(std::vector<RowId>{1}, *staged).is_ok());
    ASSERT_TRUE(staged->wait().is_ok());
    staged->release();
  }
  EXPECT_GT(cache->metrics().rows_staged, 0);
  stage_rows(*cache, source, *staged, row_range(0, 16));
  EXPECT_TRUE(rows_are_right(source, *holder, row_range(0, 8)));
  staged->release();
  holder->release();
  const std::uint64_t staged_before = cache->metrics().rows_staged;
  stage_rows(*cache, source, *staged, row_range(0, 16));
  EXPECT_EQ(cache->metrics().rows_staged, staged_before);
}

TEST(RowCache, ResidentTableHoldsEveryRowAtItsOwnSlot) {
  FakeRowSource source(40'000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  const auto cache = open_cache(source, 0, {.resident = true});
  EXPECT_EQ(cache->slot_count(), 40'000);
  const auto staged = make_staged(*cache, 40'000);
  stage_rows(*cache, source, *staged, row_range(0, 40'000));
  EXPECT_EQ(staged->slots()[1234], 1234);
  staged->release();
  stage_rows(*cache, source, *staged, std::vector<RowId>{7, 7, kNoRow});
  EXPECT_EQ(cache->metrics().rows_asked, 40'002);
  EXPECT_EQ(cache->metrics().rows_distinct, 40'002);  // 7 twice: duplicates are not looked for
  EXPECT_EQ(cache->metrics().rows_hit, 40'002);
  EXPECT_EQ(cache->leases_outstanding(), 1);
  EXPECT_EQ(source.rows_submitted(), 40'000);
}

TEST(RowCache, ResidentTableThatCannotBeReadDoesNotOpen) {
  FakeRowSource source(40'000, kRowBytes);
  source.set_delivery(Delivery::at_wait);
  source.set_fault([](RowId row) { return row == 39'999 ? Fault::fail : Fault::none; });
  const auto cache = RowCache::open(source, {.resident = true});
  EXPECT_EQ(cache.status().message(), "row 39999 cannot be read");
  source.set_fault([](RowId row) { return row == 5 ? Fault::hang : Fault::none; });
  EXPECT_EQ(RowCache::open(source, {.resident = true}).status().code(), StatusCode::deadline);
  EXPECT_EQ(source.pending_count(), 0);
}

}  // namespace
}  // namespace ple::test
