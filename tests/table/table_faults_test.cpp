#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <ostream>
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

struct Way {
  const char* name;
  IoBackend backend;
  DirectIo direct;

  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

// What one batch of every row brought.
struct Outcome {
  Status status;
  std::vector<bool> arrived;
};

class TableFaultsTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    TableOptions options;
    options.direct = GetParam().direct;
    options.reader.backend = GetParam().backend;
    options.reader.depth = 8;
    options.reader.wrap_queue = faults_.wrap();
    auto table = Table::open(files_.spec(), files_.files(), options);
    ASSERT_TRUE(table.is_ok()) << table.status().message();
    table_ = std::move(table).value();
  }

  // Reads every row. A row that arrived must be right, whatever happened to others.
  Outcome read_all() {
    std::vector<RowId> rows(files_.spec().row_count);
    std::iota(rows.begin(), rows.end(), RowId{0});
    const test::RowDestinations destinations(rows, files_.row_bytes());
    const auto batch = table_->make_batch();
    Outcome outcome;
    outcome.status = table_->submit(destinations.reads(), batch);
    EXPECT_TRUE(outcome.status.is_ok()) << outcome.status.message();
    outcome.status = batch->wait(kPatience);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      outcome.arrived.push_back(batch->arrived(i));
      if (outcome.arrived[i]) {
        EXPECT_EQ(destinations.row(i), files_.row_string(rows[i])) << i;
      }
    }
    return outcome;
  }

  void expect_everything_right() {
    const Outcome outcome = read_all();
    EXPECT_TRUE(outcome.status.is_ok()) << outcome.status.message();
    for (const bool arrived : outcome.arrived) EXPECT_TRUE(arrived);
  }

  // The blocks of the row, as far as they can be read alone.
  std::pair<std::uint64_t, std::uint64_t> blocks_of(RowId row) const {
    const std::uint64_t block = table_->reader_info().block_bytes;
    const std::uint64_t begin = files_.offset(row) / block * block;
    const std::uint64_t end = (files_.offset(row) + files_.row_bytes() + block - 1) / block * block;
    return {begin, end};
  }

  test::Random random_;
  test::FaultPlan faults_;
  test::TableFiles files_{
      random_, {.row_count = 1500, .part_bytes = {320}, .shard_count = 12, .file_count = 3}};
  std::unique_ptr<Table> table_;
};

TEST_P(TableFaultsTest, AnErrorOnOneBlockLosesTheRowsOnItAlone) {
  const RowId bad_row = 700;
  const std::uint32_t bad_file = files_.extent(bad_row).file_index;
  const std::uint64_t bad_byte = files_.offset(bad_row);
  faults_.set_rule([=, opened = files_.opened_index(bad_file)](const ReadOperation& read) {
    const bool covers =
        read.file_index == opened && read.offset <= bad_byte && bad_byte < read.offset + read.bytes;
    return covers ? Fault::fail(EIO) : Fault::none();
  });
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  EXPECT_THAT(outcome.status.message(), HasSubstr(files_.files()[bad_file].path));
  EXPECT_THAT(outcome.status.message(), HasSubstr("Input/output error"));
  for (RowId row = 0; row < outcome.arrived.size(); ++row) {
    const auto [begin, end] = blocks_of(row);
    const bool on_bad_block =
        files_.extent(row).file_index == bad_file && begin <= bad_byte && bad_byte < end;
    EXPECT_EQ(outcome.arrived[row], !on_bad_block) << row;
  }
  EXPECT_FALSE(outcome.arrived[bad_row]);
  faults_.set_rule({});
  expect_everything_right();
}

TEST_P(TableFaultsTest, AnErrorOnAWholeFileLosesItsRowsAlone) {
  const std::uint32_t bad_file = files_.extent(700).file_index;
  faults_.set_rule([opened = files_.opened_index(bad_file)](const ReadOperation& read) {
    return read.file_index == opened ? Fault::fail(EIO) : Fault::none();
  });
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  for (RowId row = 0; row < outcome.arrived.size(); ++row) {
    EXPECT_EQ(outcome.arrived[row], files_.extent(row).file_index != bad_file) << row;
  }
  faults_.set_rule({});
  expect_everything_right();
}

TEST_P(TableFaultsTest, ShortReadsAreContinued) {
  const bool any_size = GetParam().direct == DirectIo::off;
  faults_.set_rule([&](const ReadOperation& read) {
    const std::uint32_t unit = any_size ? 1 : 512;
    if (read.bytes <= 512 || random_.chance(0.3)) return Fault::none();
    return Fault::shorten(static_cast<std::uint32_t>(random_.between(1, read.bytes / unit - 1)) *
                          unit);
  });
  expect_everything_right();
  EXPECT_GT(table_->reader_metrics().retry_count.load(), 0U);
}

TEST_P(TableFaultsTest, InterruptedAndRefusedReadsAreTriedAgain) {
  std::map<std::uint64_t, int> attempts;
  faults_.set_rule([&](const ReadOperation& read) {
    const int attempt = attempts[std::uint64_t{read.file_index} << 48 | read.offset]++;
    return attempt >= 6 ? Fault::none() : Fault::fail(attempt % 2 == 0 ? EINTR : EAGAIN);
  });
  expect_everything_right();
}

TEST_P(TableFaultsTest, AReadThatIsRefusedForeverFails) {
  faults_.set_rule([](const ReadOperation&) { return Fault::fail(EAGAIN); });
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  EXPECT_THAT(outcome.status.message(), HasSubstr("times in a row"));
  faults_.set_rule({});
  expect_everything_right();
}

TEST_P(TableFaultsTest, AFullQueueIsWaitedFor) {
  faults_.set_rule(
      [&](const ReadOperation&) { return random_.chance(0.5) ? Fault::refuse() : Fault::none(); });
  expect_everything_right();
}

TEST_P(TableFaultsTest, AQueueThatStaysFullFailsTheRead) {
  faults_.set_rule([](const ReadOperation&) { return Fault::refuse(); });
  EXPECT_EQ(read_all().status.code(), StatusCode::io_error);
  faults_.set_rule({});
  expect_everything_right();
}

TEST_P(TableFaultsTest, ABrokenQueueFailsEveryBatchFromThenOn) {
  faults_.set_rule([](const ReadOperation& read) {
    return read.slot == 0 ? Fault::break_queue() : Fault::none();
  });
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  EXPECT_THAT(outcome.status.message(), HasSubstr("the queue is broken"));
  const test::RowDestinations destinations(std::vector<RowId>{1}, files_.row_bytes());
  EXPECT_EQ(table_->submit(destinations.reads(), table_->make_batch()).code(),
            StatusCode::io_error);
  table_.reset();
  EXPECT_TRUE(destinations.is_untouched());
}

TEST_P(TableFaultsTest, AFileThatShrankIsNamedAndNothingOfItServed) {
  const ShardExtent& shard = files_.extent(700);
  const ModelFile& file = files_.files()[shard.file_index];
  std::filesystem::resize_file(file.path, files_.offset(700) + 100);
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  EXPECT_THAT(outcome.status.message(), HasSubstr(file.path));
  EXPECT_THAT(outcome.status.message(), HasSubstr(std::to_string(file.bytes) + " bytes became"));
  for (RowId row = 0; row < outcome.arrived.size(); ++row) {
    EXPECT_EQ(outcome.arrived[row], files_.extent(row).file_index != shard.file_index) << row;
  }
}

TEST_P(TableFaultsTest, AReplacedFileIsAnErrorUntilItIsBack) {
  const std::uint32_t bad_file = files_.extent(700).file_index;
  const std::string path = files_.files()[bad_file].path;
  std::filesystem::rename(path, path + ".away");
  std::filesystem::copy_file(path + ".away", path);
  const Outcome outcome = read_all();
  EXPECT_EQ(outcome.status.code(), StatusCode::io_error);
  EXPECT_THAT(outcome.status.message(), HasSubstr("'" + path + "' was replaced"));
  for (RowId row = 0; row < outcome.arrived.size(); ++row) {
    EXPECT_EQ(outcome.arrived[row], files_.extent(row).file_index != bad_file) << row;
  }
  std::filesystem::rename(path + ".away", path);
  expect_everything_right();
}

TEST_P(TableFaultsTest, AVanishedFileIsAnErrorUntilItIsBack) {
  const std::string path = files_.files()[files_.extent(700).file_index].path;
  std::filesystem::rename(path, path + ".away");
  const Outcome outcome = read_all();
  EXPECT_THAT(outcome.status.message(), HasSubstr("'" + path + "' vanished"));
  std::filesystem::rename(path + ".away", path);
  expect_everything_right();
}

TEST_P(TableFaultsTest, AFileWrittenToInPlaceIsAnError) {
  const std::uint32_t bad_file = files_.extent(700).file_index;
  const std::string path = files_.files()[bad_file].path;
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary) << "something else";
  // The clock of file times is coarse: make sure that the write shows.
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  const Outcome outcome = read_all();
  EXPECT_THAT(outcome.status.message(), HasSubstr("'" + path + "' was written to"));
  for (RowId row = 0; row < outcome.arrived.size(); ++row) {
    EXPECT_EQ(outcome.arrived[row], files_.extent(row).file_index != bad_file) << row;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, TableFaultsTest,
                         testing::Values(Way{"uring", IoBackend::uring, DirectIo::automatic},
                                         Way{"uring_buffered", IoBackend::uring, DirectIo::off},
                                         Way{"pread", IoBackend::pread, DirectIo::automatic},
                                         Way{"pread_buffered", IoBackend::pread, DirectIo::off}),
                         [](const auto& way) { return way.param.name; });

TEST(TableOpen, NamesAMissingFile) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  std::vector<ModelFile> wrong = files.files();
  wrong[0].path += ".not";
  const auto table = Table::open(files.spec(), wrong, {});
  EXPECT_EQ(table.status().code(), StatusCode::not_found);
  EXPECT_THAT(table.status().message(), HasSubstr(wrong[0].path));
}

TEST(TableOpen, RefusesAFileOfAnotherSize) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  std::filesystem::resize_file(files.files()[0].path, files.files()[0].bytes + 1);
  EXPECT_EQ(Table::open(files.spec(), files.files(), {}).status().code(), StatusCode::corrupt);
}

TEST(TableOpen, RefusesWhatIsNotARegularFile) {
  test::Random random;
  const test::TableFiles files(random, {.row_count = 10, .part_bytes = {320}});
  std::vector<ModelFile> wrong = files.files();
  wrong[0].path = std::filesystem::temp_directory_path().string();
  EXPECT_EQ(Table::open(files.spec(), wrong, {}).status().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace ple
