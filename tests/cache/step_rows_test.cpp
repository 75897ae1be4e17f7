// Interleavings within one stage call, which a test through RowCache cannot choose: the step is
// stopped at a set's lock.

#include "cache/step_rows.hpp"

#include <functional>
#include <thread>

#include "cache/cache_support.hpp"

namespace ple::test {
namespace {

using Delivery = FakeRowSource::Delivery;
using Fault = FakeRowSource::Fault;

constexpr std::uint32_t kSetCount = 2;
constexpr std::size_t kSlotCount = std::size_t{kSetCount} * kWayCount;
constexpr std::size_t kIdsMax = 20;

SlotSets make_sets() {
  Result<SlotSets> sets = SlotSets::make(kSetCount);
  EXPECT_TRUE(sets.is_ok());
  return std::move(sets).value();
}

std::unique_ptr<SlotMemory> make_memory(std::size_t slot_count) {
  Result<std::unique_ptr<SlotMemory>> memory = make_host_slot_memory(slot_count * kRowBytes);
  EXPECT_TRUE(memory.is_ok());
  return std::move(memory).value();
}

// Even rows in one set, odd rows in the other.
class StepRowsTest : public testing::Test {
 protected:
  StepRowsTest() { source_.set_delivery(Delivery::by_hand); }

  // Stages row 0, whose first slot another step reads into, row 1, and row 0 again; in between,
  // give_up ends the other step's read without success.
  void expect_one_slot_around(const std::function<void()>& give_up) {
    const std::vector<RowId> ids = {0, 1, 0};
    const SlotId joined = other_.slots()[0];
    const std::uint32_t epoch_before = shared_.sets.mark(joined).epoch();
    const std::uint64_t submitted_before = source_.rows_submitted();
    std::thread stager;
    {
      const MutexLock lock(shared_.sets.lock_of(1));
      stager = std::thread([&] { EXPECT_TRUE(step_.stage(ids).is_ok()); });
      while (shared_.sets.mark(joined).epoch() == epoch_before) std::this_thread::yield();
      give_up();
      EXPECT_EQ(shared_.sets.row(joined), kNoRow);
    }
    stager.join();
    EXPECT_EQ(step_.slots()[0], step_.slots()[2]);
    source_.set_fault({});
    source_.set_delivery(Delivery::at_wait);
    const Status status = step_.wait();
    EXPECT_TRUE(status.is_ok()) << status.message();
    EXPECT_TRUE(rows_are_right(source_, step_, ids));
    EXPECT_EQ(source_.rows_submitted() - submitted_before, 2U);
    EXPECT_EQ(shared_.counters.read().rows_reread, 1U);
  }

  FakeRowSource source_{100, kRowBytes};
  SharedRows shared_{source_, RowCacheOptions{}, make_memory(kSlotCount), make_sets(),
                     static_cast<std::uint32_t>(kRowBytes)};
  StepRows other_{shared_, kIdsMax, make_memory(kIdsMax)};
  StepRows step_{shared_, kIdsMax, make_memory(kIdsMax)};
};

TEST_F(StepRowsTest, JoinedRowKeepsItsSlotWhenItsReadFailsWithinTheStage) {
  source_.set_fault([](RowId) { return Fault::fail; });
  ASSERT_TRUE(other_.stage(std::vector<RowId>{0}).is_ok());
  expect_one_slot_around([this] {
    source_.deliver_all();
    EXPECT_FALSE(other_.wait().is_ok());
  });
}

TEST_F(StepRowsTest, JoinedRowKeepsItsSlotWhenItsReadIsTakenBackWithinTheStage) {
  // One row more than the set has ways: reads of a step that also go to staging end with it.
  std::vector<RowId> even_rows;
  for (RowId row = 0; row <= 2 * kWayCount; row += 2) even_rows.push_back(row);
  ASSERT_TRUE(other_.stage(even_rows).is_ok());
  expect_one_slot_around([this] { other_.release(); });
}

}  // namespace
}  // namespace ple::test
