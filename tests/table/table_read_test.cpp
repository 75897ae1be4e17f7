#include <algorithm>
#include <chrono>
#include <numeric>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

constexpr std::chrono::nanoseconds kPatience = std::chrono::minutes(5);

struct Way {
  const char* name;
  IoBackend backend;
  DirectIo direct;
  std::uint32_t block_bytes;

  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

class TableReadTest : public testing::TestWithParam<Way> {
 protected:
  static TableOptions options() {
    TableOptions options;
    options.direct = GetParam().direct;
    options.reader.backend = GetParam().backend;
    options.reader.block_bytes = GetParam().block_bytes;
    options.reader.depth = 8;
    return options;
  }
};

std::vector<RowId> random_rows(test::Random& random, std::uint64_t row_count, std::size_t count) {
  std::vector<RowId> rows(row_count);
  std::iota(rows.begin(), rows.end(), RowId{0});
  std::shuffle(rows.begin(), rows.end(), random.engine());
  rows.resize(std::min<std::size_t>(count, row_count));
  return rows;
}

void expect_rows(Table& table, const test::TableFiles& files, std::span<const RowId> rows) {
  test::RowDestinations destinations(rows, files.row_bytes());
  const auto batch = table.make_batch();
  const Status submitted = table.submit(destinations.reads(), batch);
  ASSERT_TRUE(submitted.is_ok()) << submitted.message();
  const Status status = batch->wait(kPatience);
  ASSERT_TRUE(status.is_ok()) << status.message();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(batch->arrived(i));
    ASSERT_EQ(destinations.row(i), files.row_string(rows[i])) << "row " << rows[i];
  }
}

TEST_P(TableReadTest, EveryRowOfRandomLayoutsIsTheFilesOwn) {
  test::Random random;
  const std::vector<std::vector<std::uint32_t>> all_part_bytes = {
      {320}, {160}, {256, 8}, {36}, {4096}, {5000, 40}, {17920}};
  for (const std::vector<std::uint32_t>& part_bytes : all_part_bytes) {
    const test::TableFiles files(random,
                                 {.row_count = static_cast<std::uint64_t>(random.between(150, 600)),
                                  .part_bytes = part_bytes,
                                  .shard_count = static_cast<std::uint64_t>(random.between(11, 20)),
                                  .file_count = static_cast<std::uint32_t>(random.between(1, 5))});
    auto table = Table::open(files.spec(), files.files(), options());
    ASSERT_TRUE(table.is_ok()) << table.status().message();
    const std::uint64_t row_count = files.spec().row_count;
    // All rows, so that reads are merged; few rows, so that most stand alone; the last row.
    expect_rows(*table.value(), files, random_rows(random, row_count, row_count));
    expect_rows(*table.value(), files, random_rows(random, row_count, 20));
    expect_rows(*table.value(), files, std::vector<RowId>{static_cast<RowId>(row_count - 1)});
  }
}

TEST_P(TableReadTest, SaysHowItReads) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  auto table = Table::open(files.spec(), files.files(), options());
  ASSERT_TRUE(table.is_ok()) << table.status().message();
  const BlockReaderInfo& info = table.value()->reader_info();
  EXPECT_EQ(info.features.backend, GetParam().backend);
  EXPECT_EQ(info.depth, 8U);
  EXPECT_GE(info.block_bytes, std::max(512U, GetParam().block_bytes));
  if (GetParam().direct == DirectIo::off) {
    EXPECT_FALSE(info.is_direct);
  }
}

TEST_P(TableReadTest, CountsItsReads) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 1000, .part_bytes = {320}});
  auto table = Table::open(files.spec(), files.files(), options());
  ASSERT_TRUE(table.is_ok()) << table.status().message();
  expect_rows(*table.value(), files, std::vector<RowId>{0, 999});
  const BlockReaderMetrics& metrics = table.value()->reader_metrics();
  EXPECT_EQ(metrics.read_count.load(), 2U);
  EXPECT_GE(metrics.read_bytes.load(), 640U);
  EXPECT_EQ(metrics.read_ns.count(), 2U);
  EXPECT_GT(metrics.read_ns.percentile_ns(0.5), 0U);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, TableReadTest,
    testing::Values(Way{"uring", IoBackend::uring, DirectIo::automatic, 0},
                    Way{"uring_4096", IoBackend::uring, DirectIo::automatic, 4096},
                    Way{"uring_buffered", IoBackend::uring, DirectIo::off, 0},
                    Way{"pread", IoBackend::pread, DirectIo::automatic, 0},
                    Way{"pread_8192", IoBackend::pread, DirectIo::automatic, 8192},
                    Way{"pread_buffered", IoBackend::pread, DirectIo::off, 0}),
    [](const auto& way) { return way.param.name; });

TEST(Table, RefusesRowsThatItDoesNotHave) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  auto table = Table::open(files.spec(), files.files(), {});
  ASSERT_TRUE(table.is_ok()) << table.status().message();
  const test::RowDestinations destinations(std::vector<RowId>{9, 10}, files.row_bytes());
  const auto batch = table.value()->make_batch();
  EXPECT_EQ(table.value()->submit(destinations.reads(), batch).code(),
            StatusCode::invalid_argument);
  EXPECT_TRUE(destinations.is_untouched());
}

TEST(Table, RefusesABatchOfAnotherTable) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  auto one = Table::open(files.spec(), files.files(), {});
  auto other = Table::open(files.spec(), files.files(), {});
  ASSERT_TRUE(one.is_ok() && other.is_ok());
  const test::RowDestinations destinations(std::vector<RowId>{1}, files.row_bytes());
  EXPECT_EQ(one.value()->submit(destinations.reads(), other.value()->make_batch()).code(),
            StatusCode::invalid_argument);
}

TEST(Table, AnEmptyBatchIsDoneAtOnce) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  auto table = Table::open(files.spec(), files.files(), {});
  ASSERT_TRUE(table.is_ok());
  const auto batch = table.value()->make_batch();
  ASSERT_TRUE(table.value()->submit({}, batch).is_ok());
  EXPECT_TRUE(batch->done());
  EXPECT_TRUE(batch->wait(kPatience).is_ok());
}

}  // namespace
}  // namespace ple
