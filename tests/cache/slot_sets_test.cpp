#include "cache/slot_sets.hpp"

#include "cache/epoch_window.hpp"
#include "cache/find_slots.hpp"
#include "cache/id_map.hpp"
#include "gtest/gtest.h"
#include "support/random.hpp"

namespace ple::test {
namespace {

// One set of slots, and what a step does to it.
class OneSet : public testing::Test {
 protected:
  Claim load(RowId row, std::uint32_t epoch, std::uint32_t floor) {
    const Claim claim = sets_.claim(row, epoch, floor, 7, false);
    if (claim.slot != kZeroSlot) sets_.publish(claim, false);
    return claim;
  }
  SlotId find(RowId row) const {
    SlotId slot = kNoSlot;
    sets_.find(&row, 1, 1, &slot);
    return slot;
  }

  SlotSets sets_ = SlotSets::make(1).value();
};

TEST_F(OneSet, FindsWhatWasLoaded) {
  EXPECT_EQ(find(5), kNoSlot);
  EXPECT_EQ(find(0), kNoSlot);
  const SlotId slot = load(5, 1, 0).slot;
  EXPECT_EQ(find(5), slot);
  EXPECT_EQ(sets_.row(slot), 5);
}

TEST_F(OneSet, LeasesOnceAStep) {
  const SlotId slot = load(5, 1, 0).slot;
  EXPECT_EQ(sets_.lease(slot, 5, 1), Lease::repeated);
  EXPECT_EQ(sets_.lease(slot, 5, 3), Lease::fresh);
  EXPECT_EQ(sets_.lease(slot, 5, 3), Lease::repeated);
  EXPECT_EQ(sets_.lease(slot, 5, 2), Lease::shared);
  EXPECT_EQ(sets_.mark(slot).epoch(), 3U);
  EXPECT_EQ(sets_.mark(slot).use(), 1U);
}

TEST_F(OneSet, SaysWhenASlotIsAnothersByNow) {
  const SlotId slot = load(5, 1, 0).slot;
  EXPECT_EQ(sets_.lease(slot, 6, 2), Lease::lost);
  EXPECT_EQ(sets_.mark(slot).epoch(), 1U);
}

TEST_F(OneSet, LoadingSlotIsJoinedNotLeased) {
  const Claim claim = sets_.claim(5, 1, 0, 7, false);
  EXPECT_EQ(sets_.lease(claim.slot, 5, 1), Lease::repeated);
  EXPECT_EQ(sets_.lease(claim.slot, 5, 2), Lease::loading);
  const SlotMark seen = sets_.mark(claim.slot);
  EXPECT_EQ(seen.load_index(), 7U);
  EXPECT_TRUE(sets_.join(claim.slot, 5, 2, seen));
  EXPECT_FALSE(sets_.join(claim.slot, 5, 3, seen));  // the mark has changed
  sets_.publish(claim, false);
  EXPECT_EQ(sets_.mark(claim.slot).epoch(), 2U);
  EXPECT_FALSE(sets_.join(claim.slot, 5, 2, seen));
}

TEST_F(OneSet, AbandonedClaimLeavesTheWayEmpty) {
  const Claim claim = sets_.claim(5, 1, 0, 7, false);
  sets_.abandon(claim);
  EXPECT_EQ(find(5), kNoSlot);
  EXPECT_EQ(sets_.lease(claim.slot, 5, 1), Lease::lost);
  EXPECT_EQ(sets_.mark(claim.slot).state(), SlotState::empty);
}

TEST_F(OneSet, ClaimsNoLeasedWay) {
  for (RowId row = 0; row < kWayCount; ++row) load(row, 1, 0);
  EXPECT_EQ(load(100, 2, 0).slot, kZeroSlot);
  const Claim claim = load(100, 2, 1);
  EXPECT_NE(claim.slot, kZeroSlot);
  EXPECT_TRUE(claim.evicted);
}

TEST_F(OneSet, RemembersTheRowThatHadToGo) {
  for (RowId row = 0; row < kWayCount; ++row) load(row, 1, 0);
  load(100, 2, 1);  // takes the place of row 0
  EXPECT_EQ(find(0), kNoSlot);
  EXPECT_EQ(load(0, 3, 2).use, 1U);
  EXPECT_EQ(load(200, 4, 3).use, 0U);
}

TEST_F(OneSet, SweepDrawsOldEpochsNear) {
  const SlotId slot = load(5, 1, 0).slot;
  constexpr std::uint64_t kLater = std::uint64_t{1} << 19;
  // Half the range later the row's epoch would pass for a lease to come.
  EXPECT_TRUE(is_newer(1, short_epoch(kLater + 2)));
  for (std::uint64_t epoch = kLater - 200'000; epoch < kLater; ++epoch) {
    sets_.sweep(epoch, epoch);
  }
  EXPECT_FALSE(is_newer(sets_.mark(slot).epoch(), short_epoch(kLater + 2)));
  EXPECT_EQ(find(5), slot);
}

TEST(SetDivisor, IsTheRemainder) {
  Random random;
  for (int i = 0; i < 100'000; ++i) {
    const auto count = static_cast<std::uint32_t>(random.bits() >> (32 + random.bits() % 32)) | 1U;
    const auto row = static_cast<RowId>(random.bits());
    ASSERT_EQ(SetDivisor(count).set_of(row), row % count) << row << " % " << count;
  }
  EXPECT_EQ(SetDivisor(0xFFFFFFFF).set_of(0xFFFFFFFE), 0xFFFFFFFE);
  EXPECT_EQ(SetDivisor(1).set_of(0xFFFFFFFE), 0);
}

TEST(EpochWindow, FloorPassesReleasedStepsInOrder) {
  EpochWindow epochs;
  const std::uint64_t first = *epochs.open();
  const std::uint64_t second = *epochs.open();
  const std::uint64_t third = *epochs.open();
  EXPECT_EQ(epochs.floor(), first - 1);
  epochs.retire(second);
  EXPECT_EQ(epochs.floor(), first - 1);
  epochs.retire(first);
  EXPECT_EQ(epochs.floor(), second);
  EXPECT_EQ(epochs.open_count(), 1);
  epochs.retire(third);
  EXPECT_EQ(epochs.floor(), third);
}

TEST(EpochWindow, OpensNoneTooFarAheadOfTheOldest) {
  EpochWindow epochs;
  const std::uint64_t oldest = *epochs.open();
  while (const auto epoch = epochs.open()) epochs.retire(*epoch);
  EXPECT_EQ(epochs.open_count(), 1);
  epochs.retire(oldest);
  EXPECT_TRUE(epochs.open().has_value());
}

TEST(IdMap, KeepsWhatItIsGivenUntilCleared) {
  IdMap map(100);
  map.clear(100);
  for (std::uint32_t key = 0; key < 100; ++key) EXPECT_TRUE(map.insert(key * 4096, key));
  EXPECT_FALSE(map.insert(4096, 5));
  EXPECT_EQ(map.size(), 100);
  EXPECT_EQ(*map.find(99 * 4096), 99U);
  EXPECT_EQ(map.find(1), nullptr);
  EXPECT_EQ(map.find(IdMap::kNoKey), nullptr);
  map.clear(2);
  EXPECT_EQ(map.find(4096), nullptr);
}

}  // namespace
}  // namespace ple::test
