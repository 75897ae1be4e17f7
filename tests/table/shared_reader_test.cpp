#include <chrono>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "support/faulty_queue.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

using test::Fault;

constexpr std::chrono::nanoseconds kPatience = std::chrono::minutes(5);

// Two tables of rows of different sizes, in different files of one model.
class SharedReaderTest : public testing::TestWithParam<IoBackend> {
 protected:
  void SetUp() override {
    files_ = small_.files();
    TableSpec large = large_.spec();
    for (ShardExtent& shard : large.shards) {
      shard.file_index += static_cast<std::uint32_t>(files_.size());
    }
    files_.insert(files_.end(), large_.files().begin(), large_.files().end());
    const TableSpec* const specs[] = {&small_.spec(), &large};
    TableOptions options;
    options.reader.backend = GetParam();
    options.reader.wrap_queue = faults_.wrap();
    auto tables = Table::open_all(specs, files_, options);
    ASSERT_TRUE(tables.is_ok()) << tables.status().message();
    tables_ = std::move(tables).value();
  }

  static void expect_rows(Table& table, const test::TableFiles& files) {
    std::vector<RowId> rows(files.spec().row_count);
    for (RowId row = 0; row < rows.size(); ++row) rows[row] = row;
    const test::RowDestinations destinations(rows, files.row_bytes());
    const auto batch = table.make_batch();
    ASSERT_TRUE(table.submit(destinations.reads(), batch).is_ok());
    const Status status = batch->wait(kPatience);
    ASSERT_TRUE(status.is_ok()) << status.message();
    for (const RowId row : rows) ASSERT_EQ(destinations.row(row), files.row_string(row));
  }

  test::Random random_;
  test::FaultPlan faults_;
  test::TableFiles small_{
      random_, {.row_count = 300, .part_bytes = {40}, .shard_count = 4, .file_count = 2}};
  test::TableFiles large_{random_, {.row_count = 100, .part_bytes = {20'000, 8}}};
  std::vector<ModelFile> files_;
  std::vector<std::unique_ptr<Table>> tables_;
};

TEST_P(SharedReaderTest, ServesEveryTable) {
  EXPECT_EQ(&tables_[0]->reader_metrics(), &tables_[1]->reader_metrics());
  expect_rows(*tables_[0], small_);
  expect_rows(*tables_[1], large_);
}

TEST_P(SharedReaderTest, OutlivesATableWhoseReadIsStillOut) {
  faults_.set_rule([](const ReadOperation&) { return Fault::hold(); });
  const test::RowDestinations destinations(std::vector<RowId>{7}, small_.row_bytes());
  const auto batch = tables_[0]->make_batch();
  ASSERT_TRUE(tables_[0]->submit(destinations.reads(), batch).is_ok());
  faults_.wait_held(1);
  EXPECT_EQ(batch->wait(std::chrono::nanoseconds(0)).code(), StatusCode::deadline);
  tables_[0].reset();
  faults_.set_rule({});
  faults_.release();
  expect_rows(*tables_[1], large_);
  EXPECT_TRUE(destinations.is_untouched());
}

INSTANTIATE_TEST_SUITE_P(Backends, SharedReaderTest,
                         testing::Values(IoBackend::uring, IoBackend::pread), [](const auto& way) {
                           return way.param == IoBackend::uring ? "uring" : "pread";
                         });

}  // namespace
}  // namespace ple
