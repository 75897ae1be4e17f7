// A step's reads allocate nothing once its batch is warm. Alone in its program, because operator
// new is replaced.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <new>
#include <vector>

#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace {
std::atomic<std::uint64_t> allocation_count{0};
}

void* operator new(std::size_t bytes) {
  allocation_count.fetch_add(1);
  void* data = std::malloc(bytes);
  if (data == nullptr) throw std::bad_alloc();
  return data;
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

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
    if (turn == 10) before = allocation_count.load();
    ASSERT_TRUE(table.value()->submit(destinations.reads(), batch).is_ok());
    ASSERT_TRUE(batch->wait(std::chrono::minutes(5)).is_ok());
  }
  EXPECT_EQ(allocation_count.load() - before, 0U);
}

INSTANTIATE_TEST_SUITE_P(Backends, TableAllocationTest,
                         testing::Values(IoBackend::uring, IoBackend::pread), [](const auto& way) {
                           return way.param == IoBackend::uring ? "uring" : "pread";
                         });

}  // namespace
}  // namespace ple
