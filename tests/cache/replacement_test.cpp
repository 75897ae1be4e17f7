#include "cache/replacement.hpp"

#include "gtest/gtest.h"

namespace ple::test {
namespace {

constexpr std::uint32_t kFloor = 1000;

// A full set of rows that were used again, way w last used at epoch 900 + w.
SetMarks known_rows(std::uint32_t use) {
  SetMarks marks;
  for (std::uint32_t way = 0; way < kWayCount; ++way) {
    marks[way] = SlotMark::ready(900 + way, use, false, 0);
  }
  return marks;
}

SlotMark stranger(std::uint32_t epoch) { return SlotMark::ready(epoch, 0, false, 0); }

TEST(Replacement, TakesAnEmptyWayFirst) {
  SetMarks marks = known_rows(0);
  marks[7] = SlotMark::empty(0, 0);
  EXPECT_EQ(choose_way(marks, kFloor, false), 7);
}

TEST(Replacement, NeverTakesALeasedOrLoadingWay) {
  SetMarks marks = known_rows(0);
  for (SlotMark& mark : marks) mark = stranger(kFloor + 1);
  EXPECT_EQ(choose_way(marks, kFloor, false), -1);
  for (SlotMark& mark : marks) mark = SlotMark::loading(kFloor - 5, 3);
  EXPECT_EQ(choose_way(marks, kFloor, false), -1);
  for (SlotMark& mark : marks) mark = SlotMark::empty(kFloor + 1, 0);
  EXPECT_EQ(choose_way(marks, kFloor, false), -1);
  marks[3] = SlotMark::ready(kFloor, 3, false, 0);
  EXPECT_EQ(choose_way(marks, kFloor, false), 3);
}

TEST(Replacement, ManyStrangersGiveWayToEachOther) {
  SetMarks marks = known_rows(1);
  for (const std::uint32_t way : {9, 4, 12, 6}) marks[way] = stranger(990 + way % 5);
  EXPECT_EQ(choose_way(marks, kFloor, false), 6);
}

TEST(Replacement, FewStrangersAreGivenTime) {
  SetMarks marks = known_rows(1);
  for (const std::uint32_t way : {9, 4, 12}) marks[way] = stranger(800);
  EXPECT_EQ(choose_way(marks, kFloor, false), 0);
}

TEST(Replacement, EachUseHalvesTheAge) {
  SetMarks marks = known_rows(3);
  marks[5] = SlotMark::ready(kFloor - 40, 1, false, 0);   // 41 / 2
  marks[6] = SlotMark::ready(kFloor - 79, 2, false, 0);   // 80 / 4
  marks[0] = SlotMark::ready(kFloor - 160, 3, false, 0);  // 161 / 8
  EXPECT_EQ(choose_way(marks, kFloor, false), 5);
  marks[0] = SlotMark::ready(kFloor - 170, 3, false, 0);
  EXPECT_EQ(choose_way(marks, kFloor, false), 0);
}

TEST(Replacement, SparesKnownRowsWhereOnlyColdOnesMayGo) {
  SetMarks marks = known_rows(1);
  EXPECT_EQ(choose_way(marks, kFloor, true), -1);
  marks[5] = stranger(999);
  EXPECT_EQ(choose_way(marks, kFloor, true), 5);
}

TEST(Replacement, KnowsAgesAcrossTheWrapOfEpochs) {
  SetMarks marks = known_rows(1);
  for (std::uint32_t way = 0; way < kWayCount; ++way) {
    marks[way] = stranger((way - 10) & SlotMark::kEpochMask);
  }
  EXPECT_EQ(choose_way(marks, 3, false), 0);
  for (std::uint32_t way = 0; way < 13; ++way) marks[way] = SlotMark::loading(0, 0);
  EXPECT_EQ(choose_way(marks, 3, false), 13);  // epoch 3; those above are leased
}

TEST(Replacement, RowOfAGhostIsNoStranger) {
  SetMarks marks = known_rows(0);
  marks[11] = SlotMark::ready(5, 0, false, 77);
  EXPECT_EQ(initial_use(marks, 77), 1U);
  EXPECT_EQ(initial_use(marks, 78), 0U);
}

}  // namespace
}  // namespace ple::test
