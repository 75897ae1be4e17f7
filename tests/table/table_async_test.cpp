#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/faulty_queue.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

using test::Fault;
using testing::HasSubstr;

constexpr std::chrono::nanoseconds kPatience = std::chrono::minutes(5);
constexpr std::chrono::nanoseconds kNoPatience = std::chrono::milliseconds(1);

// 4,096 bytes a row: no two of these rows share a block of 512 bytes, unless they are neighbours.
constexpr std::uint32_t kRowBytes = 4096;

class TableAsyncTest : public testing::TestWithParam<IoBackend> {
 protected:
  void open(std::uint32_t depth) {
    TableOptions options;
    options.reader.backend = GetParam();
    options.reader.depth = depth;
    options.reader.wrap_queue = faults_.wrap();
    auto table = Table::open(files_.spec(), files_.files(), options);
    ASSERT_TRUE(table.is_ok()) << table.status().message();
    table_ = std::move(table).value();
  }

  void hold_row(RowId row) {
    faults_.set_rule([this, offset = files_.offset(row)](const ReadOperation& read) {
      const bool covers = read.offset <= offset && offset < read.offset + read.bytes;
      return covers ? Fault::hold() : Fault::none();
    });
  }
  void hold_all() {
    faults_.set_rule([](const ReadOperation&) { return Fault::hold(); });
  }
  void hold_nothing() { faults_.set_rule({}); }

  void expect_rows(const test::RowDestinations& destinations, const RowReadBatch& batch) {
    for (std::size_t i = 0; i < destinations.reads().size(); ++i) {
      EXPECT_TRUE(batch.arrived(i));
      EXPECT_EQ(destinations.row(i), files_.row_string(destinations.reads()[i].row));
    }
  }

  test::Random random_;
  test::FaultPlan faults_;
  test::TableFiles files_{random_, {.row_count = 1000, .part_bytes = {kRowBytes}}};
  std::unique_ptr<Table> table_;
};

TEST_P(TableAsyncTest, SubmitReturnsBeforeTheRowsArrive) {
  open(4);
  hold_all();
  const test::RowDestinations destinations(std::vector<RowId>{1, 500}, kRowBytes);
  const auto batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(destinations.reads(), batch).is_ok());
  faults_.wait_held(2);
  EXPECT_FALSE(batch->done());
  EXPECT_TRUE(destinations.is_untouched());
  hold_nothing();
  faults_.release();
  EXPECT_TRUE(batch->wait(kPatience).is_ok());
  EXPECT_TRUE(batch->done());
  expect_rows(destinations, *batch);
}

TEST_P(TableAsyncTest, ABatchInFlightCannotBeSubmittedAgain) {
  open(4);
  hold_all();
  const test::RowDestinations destinations(std::vector<RowId>{1}, kRowBytes);
  const auto batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(destinations.reads(), batch).is_ok());
  faults_.wait_held(1);
  EXPECT_EQ(table_->submit(destinations.reads(), batch).code(), StatusCode::wrong_state);
  hold_nothing();
  faults_.release();
  EXPECT_TRUE(batch->wait(kPatience).is_ok());
}

TEST_P(TableAsyncTest, ASlowReadFailsAtItsDeadlineAndTouchesNothingAfterwards) {
  open(4);
  hold_row(500);
  const test::RowDestinations destinations(std::vector<RowId>{500}, kRowBytes);
  const auto batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(destinations.reads(), batch).is_ok());
  faults_.wait_held(1);
  const Status status = batch->wait(kNoPatience);
  EXPECT_EQ(status.code(), StatusCode::deadline);
  EXPECT_THAT(status.message(), HasSubstr("row 500 of file '" + files_.files()[0].path));
  EXPECT_FALSE(batch->arrived(0));
  EXPECT_TRUE(batch->done());
  faults_.release();
  table_.reset();  // waits for the read
  EXPECT_TRUE(destinations.is_untouched());
}

TEST_P(TableAsyncTest, OthersGoOnBesideASlowRead) {
  open(4);
  hold_row(500);
  const test::RowDestinations slow(std::vector<RowId>{500}, kRowBytes);
  const auto slow_batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(slow.reads(), slow_batch).is_ok());
  faults_.wait_held(1);
  for (RowId first = 0; first < 400; first += 40) {
    const test::RowDestinations other(std::vector<RowId>{first, first + 20}, kRowBytes);
    const auto batch = table_->make_batch();
    ASSERT_TRUE(table_->submit(other.reads(), batch).is_ok());
    EXPECT_TRUE(batch->wait(kPatience).is_ok());
    expect_rows(other, *batch);
  }
  EXPECT_FALSE(slow_batch->done());
  faults_.release();
  EXPECT_TRUE(slow_batch->wait(kPatience).is_ok());
  expect_rows(slow, *slow_batch);
}

TEST_P(TableAsyncTest, ACancelledBatchIsUsableWhileItsOldReadIsStillOut) {
  open(4);
  hold_row(500);
  const auto batch = table_->make_batch();
  const test::RowDestinations slow(std::vector<RowId>{500}, kRowBytes);
  ASSERT_TRUE(table_->submit(slow.reads(), batch).is_ok());
  faults_.wait_held(1);
  EXPECT_EQ(batch->wait(kNoPatience).code(), StatusCode::deadline);
  const test::RowDestinations next(std::vector<RowId>{7, 900}, kRowBytes);
  ASSERT_TRUE(table_->submit(next.reads(), batch).is_ok());
  EXPECT_TRUE(batch->wait(kPatience).is_ok());
  faults_.release();
  table_.reset();
  expect_rows(next, *batch);
  EXPECT_TRUE(slow.is_untouched());
}

TEST_P(TableAsyncTest, ABufferWaitsForItsCompletion) {
  open(1);
  hold_row(500);
  const test::RowDestinations slow(std::vector<RowId>{500}, kRowBytes);
  const test::RowDestinations next(std::vector<RowId>{7}, kRowBytes);
  const auto slow_batch = table_->make_batch();
  const auto next_batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(slow.reads(), slow_batch).is_ok());
  faults_.wait_held(1);
  EXPECT_EQ(slow_batch->wait(kNoPatience).code(), StatusCode::deadline);
  // The only buffer still belongs to the slow read.
  ASSERT_TRUE(table_->submit(next.reads(), next_batch).is_ok());
  EXPECT_EQ(next_batch->wait(kNoPatience).code(), StatusCode::deadline);
  faults_.release();
  ASSERT_TRUE(table_->submit(next.reads(), next_batch).is_ok());
  EXPECT_TRUE(next_batch->wait(kPatience).is_ok());
  expect_rows(next, *next_batch);
  EXPECT_TRUE(slow.is_untouched());
}

TEST_P(TableAsyncTest, ASmallBatchTakesItsTurnBesideALargeOne) {
  open(1);
  std::vector<std::uint64_t> order;
  faults_.set_rule([&order](const ReadOperation& read) {
    order.push_back(read.offset);
    return order.size() == 1 ? Fault::hold() : Fault::none();
  });
  std::vector<RowId> many;
  for (RowId row = 0; row < 600; row += 3) many.push_back(row);
  const test::RowDestinations large(many, kRowBytes);
  const test::RowDestinations small(std::vector<RowId>{900}, kRowBytes);
  const auto large_batch = table_->make_batch();
  const auto small_batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(large.reads(), large_batch).is_ok());
  faults_.wait_held(1);
  ASSERT_TRUE(table_->submit(small.reads(), small_batch).is_ok());
  faults_.release();
  EXPECT_TRUE(large_batch->wait(kPatience).is_ok());
  EXPECT_TRUE(small_batch->wait(kPatience).is_ok());
  const auto small_read = std::find_if(order.begin(), order.end(), [this](std::uint64_t offset) {
    return offset > files_.offset(700);
  });
  EXPECT_LT(small_read - order.begin(), 20);
}

TEST_P(TableAsyncTest, ClosingTheTableEndsWhatWasNotStarted) {
  open(1);
  hold_all();
  const test::RowDestinations destinations(std::vector<RowId>{1, 300, 600}, kRowBytes);
  const auto batch = table_->make_batch();
  ASSERT_TRUE(table_->submit(destinations.reads(), batch).is_ok());
  faults_.wait_held(1);
  std::thread closing([this] { table_.reset(); });
  EXPECT_EQ(batch->wait(kPatience).code(), StatusCode::wrong_state);
  faults_.release();
  closing.join();
  EXPECT_TRUE(destinations.is_untouched());
}

TEST_P(TableAsyncTest, ManyThreadsReadAtTheSameTime) {
  open(4);
  std::vector<std::thread> threads;
  for (RowId thread = 0; thread < 4; ++thread) {
    threads.emplace_back([this, thread] {
      const auto batch = table_->make_batch();
      for (RowId turn = 0; turn < 20; ++turn) {
        std::vector<RowId> rows;
        for (RowId row = thread + turn; row < 1000; row += 50) rows.push_back(row);
        const test::RowDestinations destinations(rows, kRowBytes);
        ASSERT_TRUE(table_->submit(destinations.reads(), batch).is_ok());
        ASSERT_TRUE(batch->wait(kPatience).is_ok());
        expect_rows(destinations, *batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

INSTANTIATE_TEST_SUITE_P(Backends, TableAsyncTest,
                         testing::Values(IoBackend::uring, IoBackend::pread), [](const auto& way) {
                           return way.param == IoBackend::uring ? "uring" : "pread";
                         });

}  // namespace
}  // namespace ple
