// A step's reads allocate nothing once its batch is warm. Alone in its program, because operator
// new is replaced.

#include <chrono>
#include <vector>

#include "gtest/gtest.h"
#include "support/allocation_count.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

class TableAllocationTest : public testing::TestWithParam<IoBackend> {};

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
