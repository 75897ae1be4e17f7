#include "table/row_map.hpp"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/table_files.hpp"

namespace ple {
namespace {

using testing::HasSubstr;

class RowMapTest : public testing::Test {
 protected:
  RowMapTest() {
    for (const ModelFile& file : files_.files()) {
      auto opened = BlockFile::open(file.path, DirectIo::off);
      EXPECT_TRUE(opened.is_ok());
      opened_.push_back(std::move(opened).value());
    }
  }

  Result<RowMap> make() const { return RowMap::make(spec_, opened_); }

  void expect_refused(StatusCode code, const std::string& words) const {
    const auto map = make();
    EXPECT_EQ(map.status().code(), code);
    EXPECT_THAT(map.status().message(), HasSubstr(words));
  }

  test::Random random_;
  test::TableFiles files_{
      random_, {.row_count = 500, .part_bytes = {256, 8}, .shard_count = 12, .file_count = 3}};
  std::vector<BlockFile> opened_;
  TableSpec spec_ = files_.spec();
};

TEST_F(RowMapTest, FindsEveryPartOfEveryRow) {
  const auto map = make();
  ASSERT_TRUE(map.is_ok()) << map.status().message();
  for (RowId row = 0; row < 500; ++row) {
    for (std::uint32_t part = 0; part < 2; ++part) {
      const RowPlace place = map.value().locate(part, row);
      EXPECT_EQ(place.file_index, files_.extent(row, part).file_index);
      EXPECT_EQ(place.offset, files_.offset(row, part));
    }
  }
}

TEST_F(RowMapTest, LaysThePartsOneBehindTheOther) {
  const auto map = make();
  ASSERT_TRUE(map.is_ok()) << map.status().message();
  EXPECT_EQ(map.value().part_offset(0), 0U);
  EXPECT_EQ(map.value().part_offset(1), 256U);
  EXPECT_EQ(map.value().part_bytes_max(), 256U);
}

TEST_F(RowMapTest, RefusesAMissingShard) {
  spec_.shards.pop_back();
  // The last shard may be empty, and the one before it.
  while (spec_.shards.back().row_count == 0) spec_.shards.pop_back();
  spec_.shards.pop_back();
  expect_refused(StatusCode::invalid_argument, "500 rows has extents for");
}

TEST_F(RowMapTest, RefusesShardsInTheWrongOrder) {
  const auto has_rows = [](const ShardExtent& shard) { return shard.row_count > 0; };
  const auto end = spec_.shards.end();
  const auto first = std::find_if(spec_.shards.begin(), end, has_rows);
  const auto second = std::find_if(first + 1, end, has_rows);
  ASSERT_NE(second, end);
  std::iter_swap(first, second);
  expect_refused(StatusCode::invalid_argument, "row 0 is due");
}

TEST_F(RowMapTest, RefusesAnExtentBeyondTheEndOfItsFile) {
  spec_.shards.front().offset = opened_[spec_.shards.front().file_index].bytes() - 100;
  spec_.shards.front().row_count += 1;
  expect_refused(StatusCode::corrupt, "too short");
}

TEST_F(RowMapTest, RefusesSizesThatOverflow) {
  spec_.shards.front().offset = UINT64_MAX - 10;
  expect_refused(StatusCode::corrupt, "too short");
  spec_.shards.front().offset = 0;
  spec_.shards.front().row_count = UINT64_MAX / 2;
  expect_refused(StatusCode::corrupt, "too short");
}

TEST_F(RowMapTest, RefusesAFileThatIsNotThere) {
  spec_.shards.front().file_index = 3;
  expect_refused(StatusCode::invalid_argument, "file 3 of 3");
}

TEST_F(RowMapTest, RefusesPartsThatAreNotTheRow) {
  spec_.part_bytes[1] = 7;
  expect_refused(StatusCode::invalid_argument, "have 263 bytes");
  spec_.part_bytes = {264, 0};
  expect_refused(StatusCode::invalid_argument, "a part of 0 bytes");
  spec_.part_bytes = {};
  expect_refused(StatusCode::invalid_argument, "have 0 bytes");
}

TEST_F(RowMapTest, RefusesMoreRowsThanIdsExist) {
  spec_.row_count = kNoRow;
  expect_refused(StatusCode::unsupported, "at most");
}

}  // namespace
}  // namespace ple
