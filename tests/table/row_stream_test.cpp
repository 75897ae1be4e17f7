#include "table/row_stream.hpp"

#include <cstring>

#include "gtest/gtest.h"
#include "support/random.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

// Reads a table of a few hundred rows from `first_row` on, some rows at a time.
void expect_stream(const test::TableFiles& files, std::uint64_t first_row,
                   std::uint64_t rows_at_once) {
  auto table = Table::open(files.spec(), files.files(), {});
  ASSERT_TRUE(table.is_ok()) << table.status().message();
  auto stream = RowStream::open(*table.value(), first_row, rows_at_once * files.row_bytes() + 1);
  ASSERT_TRUE(stream.is_ok()) << stream.status().message();
  EXPECT_EQ(stream.value()->batch_rows(), rows_at_once);
  std::uint64_t row = first_row;
  while (true) {
    const auto rows = stream.value()->next();
    ASSERT_TRUE(rows.is_ok()) << rows.status().message();
    if (rows.value().count == 0) break;
    ASSERT_EQ(rows.value().begin, row);
    for (std::uint64_t i = 0; i < rows.value().count; ++i, ++row) {
      ASSERT_EQ(std::memcmp(rows.value().bytes + i * files.row_bytes(), files.row(row),
                            files.row_bytes()),
                0)
          << "row " << row;
    }
  }
  EXPECT_EQ(row, files.spec().row_count);
}

TEST(RowStream, GivesEveryRowInOrderWhateverTheBatches) {
  test::Random random;
  const test::TableFiles files(random, {300, {32, 3}, 4, 2});
  for (const std::uint64_t rows_at_once : {1, 7, 100, 1000}) {
    for (const std::uint64_t first_row : {0, 1, 299, 300}) {
      expect_stream(files, first_row, rows_at_once);
    }
  }
}

TEST(RowStream, MayBeLeftInTheMiddle) {
  test::Random random;
  const test::TableFiles files(random, {3000, {320}, 4, 2});
  auto table = Table::open(files.spec(), files.files(), {});
  ASSERT_TRUE(table.is_ok());
  auto stream = RowStream::open(*table.value(), 0, 32000);
  ASSERT_TRUE(stream.is_ok());
  EXPECT_TRUE(stream.value()->next().is_ok());
}

}  // namespace
}  // namespace ple
