// A step's reads allocate nothing once its batch is warm, and running out of memory in a thread
// that reads is a failure of the step. Alone in its program, because operator new is replaced.

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "support/allocation_count.hpp"
#include "support/faulty_queue.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

// More than any thread allocates on one way.
constexpr std::int64_t kAllocationsMax = 40;

class TableAllocationTest : public testing::TestWithParam<IoBackend> {
 protected:
  Result<std::unique_ptr<Table>> open(const decltype(BlockReaderOptions::wrap_queue)& wrap_queue) {
    TableOptions options;
    options.reader.backend = GetParam();
    options.reader.depth = 4;
    options.reader.wrap_queue = wrap_queue;
    return Table::open(files_.spec(), files_.files(), options);
  }

  // Reads every row.
  Status read_all(Table& table) {
    std::vector<RowId> rows(files_.spec().row_count);
    std::iota(rows.begin(), rows.end(), RowId{0});
    const test::RowDestinations destinations(rows, files_.row_bytes());
    const auto batch = table.make_batch();
    PLE_TRY(table.submit(destinations.reads(), batch));
    return batch->wait(std::chrono::minutes(5));
  }

  // Calls body with a table whose reads the plan can make fail, for every count of allocations
  // that its threads may make.
  template <class Body>
  void for_each_count(const Body& body) {
    for (std::int64_t allocations = 0; allocations < kAllocationsMax; ++allocations) {
      test::FaultPlan faults;
      auto table = open(faults.wrap());
      ASSERT_TRUE(table.is_ok()) << table.status().message();
      body(allocations, faults, *table.value());
    }
  }

  test::Random random_;
  const test::TableFiles files_{
      random_, {.row_count = 200, .part_bytes = {256, 8}, .shard_count = 3, .file_count = 2}};
};

TEST_P(TableAllocationTest, RunningOutWhileAThreadStartsFailsTheOpening) {
  std::int64_t failure_count = 0;
  for (std::int64_t allocations = 0; allocations < kAllocationsMax; ++allocations) {
    auto table = open([=](std::unique_ptr<ReadQueue> queue) {
      test::fail_allocation_after(allocations);
      return queue;
    });
    if (table.is_ok()) continue;
    EXPECT_EQ(table.status().code(), StatusCode::out_of_memory) << table.status().message();
    ++failure_count;
  }
  EXPECT_GT(failure_count, 0);
}

// Of reads that fail, which is when there are sentences to write and rows to read alone.
TEST_P(TableAllocationTest, RunningOutInAThreadFailsTheStepAlone) {
  for_each_count([&](std::int64_t allocations, test::FaultPlan& faults, Table& table) {
    faults.set_rule([=](const ReadOperation&) {
      test::fail_allocation_after(allocations);
      return test::Fault::fail(EIO);
    });
    const Status status = read_all(table);
    EXPECT_EQ(status.code(), StatusCode::io_error) << status.message();
    faults.set_rule([](const ReadOperation&) {
      test::fail_allocation_after(-1);
      return test::Fault::none();
    });
    const Status again = read_all(table);
    EXPECT_TRUE(again.is_ok()) << again.message();
  });
}

TEST_P(TableAllocationTest, RunningOutWhenAFileVanishedFailsTheStepAlone) {
  const auto move_files = [&](const char* from, const char* to) {
    for (const ModelFile& file : files_.files()) {
      std::filesystem::rename(file.path + from, file.path + to);
    }
  };
  for_each_count([&](std::int64_t allocations, test::FaultPlan& faults, Table& table) {
    faults.set_rule([=](const ReadOperation&) {
      test::fail_allocation_after(allocations);
      return test::Fault::none();
    });
    move_files("", ".away");
    const Status status = read_all(table);
    move_files(".away", "");
    EXPECT_EQ(status.code(), StatusCode::io_error) << status.message();
    const Status again = read_all(table);
    EXPECT_TRUE(again.is_ok()) << again.message();
  });
}

TEST_P(TableAllocationTest, AWarmBatchAllocatesNothing) {
  test::Random random;
  const test::TableFiles files(
      random, {.row_count = 3000, .part_bytes = {256, 8}, .shard_count = 12, .file_count = 3});
  TableOptions options;
  options.reader.backend = GetParam();
  auto table = Table::open(files.spec(), files.files(), options);
  ASSERT_TRUE(table.is_ok()) << table.status().message();
  std::vector<RowId> rows;
  for (RowId row = 0; row < 3000; row += 3) rows.push_back(row);
  const test::RowDestinations destinations(rows, files.row_bytes());
  const auto batch = table.value()->make_batch();
  std::uint64_t before = 0;
  for (int turn = 0; turn < 20; ++turn) {
    if (turn == 10) before = test::allocation_count();
    ASSERT_TRUE(table.value()->submit(destinations.reads(), batch).is_ok());
    ASSERT_TRUE(batch->wait(std::chrono::minutes(5)).is_ok());
  }
  EXPECT_EQ(test::allocation_count() - before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Backends, TableAllocationTest,
                         testing::Values(IoBackend::uring, IoBackend::pread), [](const auto& way) {
                           return way.param == IoBackend::uring ? "uring" : "pread";
                         });

}  // namespace
}  // namespace ple
