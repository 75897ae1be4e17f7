#include "table/block_sums.hpp"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

using testing::HasSubstr;

class BlockSumsTest : public testing::Test {
 protected:
  BlockSumsTest() {
    model_.files = files_.files();
    model_.layers.emplace_back().table = files_.spec();
    const Status written =
        write_block_sums(model_, [](std::uint64_t, std::uint64_t) { return true; });
    EXPECT_TRUE(written.is_ok()) << written.message();
  }

  std::string sums_path(std::uint32_t file) const { return files_.files()[file].path + ".crc32c"; }

  Result<std::unique_ptr<Table>> open() { return Table::open(files_.spec(), files_.files(), {}); }

  // Reads every row: the status, and which rows arrived.
  std::pair<Status, std::vector<bool>> read_all() {
    auto table = open();
    EXPECT_TRUE(table.is_ok()) << table.status().message();
    EXPECT_TRUE(table.value()->checks_sums());
    std::vector<RowId> rows;
    for (RowId row = 0; row < files_.spec().row_count; ++row) rows.push_back(row);
    const test::RowDestinations destinations(rows, files_.row_bytes());
    const auto batch = table.value()->make_batch();
    EXPECT_TRUE(table.value()->submit(destinations.reads(), batch).is_ok());
    const Status status = batch->wait(std::chrono::minutes(5));
    std::vector<bool> arrived;
    for (const RowId row : rows) {
      arrived.push_back(batch->arrived(row));
      if (arrived[row]) {
        EXPECT_EQ(destinations.row(row), files_.row_string(row)) << row;
      }
    }
    return {status, arrived};
  }

  static void flip(const std::string& path, std::uint64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    const char byte = static_cast<char>(file.get());
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(static_cast<char>(byte ^ 0x10));
  }

  test::Random random_;
  test::TableFiles files_{
      random_, {.row_count = 1500, .part_bytes = {320}, .shard_count = 12, .file_count = 3}};
  ModelSpec model_;
};

TEST_F(BlockSumsTest, SoundRowsAreServed) {
  const auto [status, arrived] = read_all();
  EXPECT_TRUE(status.is_ok()) << status.message();
}

TEST_F(BlockSumsTest, AFlippedBitLosesTheRowsOfItsBlockAlone) {
  const RowId bad_row = 700;
  const std::uint32_t bad_file = files_.extent(bad_row).file_index;
  const std::uint64_t bad_block = files_.offset(bad_row) / BlockSums::kBlockBytes;
  flip(files_.files()[bad_file].path, files_.offset(bad_row));
  const auto [status, arrived] = read_all();
  EXPECT_EQ(status.code(), StatusCode::corrupt);
  EXPECT_THAT(status.message(), HasSubstr(files_.files()[bad_file].path));
  EXPECT_THAT(status.message(), HasSubstr("offset " + std::to_string(bad_block * 4096)));
  for (RowId row = 0; row < arrived.size(); ++row) {
    const std::uint64_t first = files_.offset(row) / BlockSums::kBlockBytes;
    const std::uint64_t last = (files_.offset(row) + 319) / BlockSums::kBlockBytes;
    const bool on_bad_block =
        files_.extent(row).file_index == bad_file && first <= bad_block && bad_block <= last;
    EXPECT_EQ(arrived[row], !on_bad_block) << row;
  }
}

TEST_F(BlockSumsTest, WithoutAFileNothingIsChecked) {
  for (std::uint32_t file = 0; file < 3; ++file) std::filesystem::remove(sums_path(file));
  const auto table = open();
  ASSERT_TRUE(table.is_ok());
  EXPECT_FALSE(table.value()->checks_sums());
}

TEST_F(BlockSumsTest, EveryDamageOfASumsFileIsRefused) {
  const std::uint32_t file = files_.extent(700).file_index;
  const std::uint64_t bytes = std::filesystem::file_size(sums_path(file));
  for (std::uint64_t offset = 0; offset < bytes; offset += offset < 48 ? 1 : 97) {
    flip(sums_path(file), offset);
    const auto table = open();
    EXPECT_EQ(table.status().code(), StatusCode::corrupt) << offset;
    EXPECT_THAT(table.status().message(), HasSubstr(sums_path(file)));
    flip(sums_path(file), offset);
  }
  for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{39}, bytes - 1, bytes + 1}) {
    std::filesystem::resize_file(sums_path(file), length);
    EXPECT_EQ(open().status().code(), StatusCode::corrupt) << length;
  }
}

TEST_F(BlockSumsTest, TheSumIsCrc32c) {
  // The check value of the catalogue of CRC algorithms.
  const test::TempDirectory directory;
  ModelSpec model;
  model.files = {{directory.write("nine", "123456789"), 9}};
  model.layers.emplace_back().table.shards.emplace_back().row_count = 1;
  ASSERT_TRUE(write_block_sums(model, [](std::uint64_t, std::uint64_t) { return true; }).is_ok());
  std::ifstream file(model.files[0].path + ".crc32c", std::ios::binary);
  file.seekg(40);
  std::uint32_t sum = 0;
  file.read(reinterpret_cast<char*>(&sum), sizeof sum);
  EXPECT_EQ(sum, 0xE3069283U);
}

TEST_F(BlockSumsTest, WritingCanBeStopped) {
  EXPECT_EQ(write_block_sums(model_, [](std::uint64_t, std::uint64_t) { return false; }).code(),
            StatusCode::wrong_state);
}

}  // namespace
}  // namespace ple
