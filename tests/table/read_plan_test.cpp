#include "table/read_plan.hpp"

#include <vector>

#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/table_files.hpp"
#include "table/row_map.hpp"

namespace ple {
namespace {

// One file, rows of 512 bytes, so that row r of a table whose base is a multiple of 512 is block
// base / 512 + r.
class ReadPlanTest : public testing::Test {
 protected:
  ReadPlanTest() {
    test::TempDirectory directory;
    const std::string path = directory.write("table", std::string(1000 * 512, 'x'));
    auto file = BlockFile::open(path, DirectIo::off);
    TableSpec spec;
    spec.row_count = 900;
    spec.encoding.row_bytes = 512;
    spec.part_bytes = {512};
    spec.shards.push_back({});
    spec.shards.back().offset = 512 * 10;
    spec.shards.back().row_count = 900;
    std::vector<BlockFile> files;
    files.push_back(std::move(file).value());
    map_ = std::move(RowMap::make(spec, files)).value();
  }

  void plan(const std::vector<RowId>& rows) {
    std::vector<RowRead> reads;
    for (const RowId row : rows) reads.push_back({row, nullptr});
    plan_.build(map_, limits(), reads);
  }
  ReadPlan::Limits limits() const { return {block_bytes_, 4096}; }

  // (first block, blocks) of every read.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reads() const {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    for (std::size_t i = 0; i < plan_.read_count(); ++i) {
      EXPECT_EQ(plan_.read(i).index, i);
      found.emplace_back(plan_.read(i).offset / block_bytes_[0],
                         plan_.read(i).bytes / block_bytes_[0]);
    }
    return found;
  }
  using Reads = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

  std::vector<std::uint32_t> block_bytes_ = {512};
  RowMap map_;
  ReadPlan plan_;
};

TEST_F(ReadPlanTest, ReadsInTheOrderOfTheDisk) {
  plan({500, 3, 100});
  EXPECT_EQ(reads(), (Reads{{13, 1}, {110, 1}, {510, 1}}));
}

TEST_F(ReadPlanTest, RowsOfOneBlockComeWithOneRead) {
  block_bytes_ = {2048};
  plan({2, 5, 3});  // rows 2..5 lie in block 3
  EXPECT_EQ(reads(), (Reads{{3, 1}}));
  EXPECT_EQ(plan_.pieces(0).size(), 3U);
}

TEST_F(ReadPlanTest, BlocksThatTouchComeWithOneRead) {
  plan({3, 4, 5, 7});
  EXPECT_EQ(reads(), (Reads{{13, 3}, {17, 1}}));
}

TEST_F(ReadPlanTest, AReadHasALargestSize) {
  std::vector<RowId> rows;
  for (RowId row = 0; row < 20; ++row) rows.push_back(row);
  plan(rows);
  EXPECT_EQ(reads(), (Reads{{10, 8}, {18, 8}, {26, 4}}));
}

TEST_F(ReadPlanTest, ASplitReadBecomesOneForEachPiece) {
  plan({3, 4, 9});
  plan_.split(map_, limits(), 0);
  EXPECT_EQ(reads(), (Reads{{13, 2}, {19, 1}, {13, 1}, {14, 1}}));
  EXPECT_EQ(plan_.pieces(3).size(), 1U);
  EXPECT_EQ(plan_.pieces(3)[0].row_index, 1U);
}

TEST_F(ReadPlanTest, ABuildForgetsThePlanBefore) {
  plan({3, 4, 9});
  plan({7});
  EXPECT_EQ(reads(), (Reads{{17, 1}}));
}

}  // namespace
}  // namespace ple
