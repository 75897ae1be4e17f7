#include "io/block_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <bit>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "support/temp_directory.hpp"

namespace ple {
namespace {

using testing::HasSubstr;

class BlockFileTest : public testing::TestWithParam<DirectIo> {
 protected:
  BlockFile open() {
    auto file = BlockFile::open(path_, GetParam());
    EXPECT_TRUE(file.is_ok()) << file.status().message();
    return std::move(file).value();
  }

  test::TempDirectory directory_;
  std::string path_ = directory_.write("file", std::string(10'000, 'x'));
};

TEST_P(BlockFileTest, KnowsItsSizeAndAlignment) {
  const BlockFile file = open();
  EXPECT_EQ(file.bytes(), 10'000U);
  EXPECT_TRUE(std::has_single_bit(file.alignment()));
  EXPECT_LE(file.alignment(), 4096U);
  EXPECT_TRUE(file.check_unchanged().is_ok());
}

TEST_P(BlockFileTest, NoticesAnotherFileOfItsName) {
  const BlockFile file = open();
  std::filesystem::rename(path_, path_ + ".old");
  directory_.write("file", std::string(10'000, 'x'));
  EXPECT_THAT(file.check_unchanged().message(), HasSubstr("'" + path_ + "' was replaced"));
}

TEST_P(BlockFileTest, NoticesThatItsNameIsGone) {
  const BlockFile file = open();
  std::filesystem::remove(path_);
  EXPECT_THAT(file.check_unchanged().message(), HasSubstr("'" + path_ + "' vanished"));
}

TEST_P(BlockFileTest, NoticesAnotherSize) {
  const BlockFile file = open();
  std::filesystem::resize_file(path_, 9'999);
  EXPECT_THAT(file.check_unchanged().message(), HasSubstr("10000 bytes became 9999"));
}

TEST_P(BlockFileTest, NoticesAnotherTimeOfModification) {
  const BlockFile file = open();
  const timespec times[2] = {{0, UTIME_OMIT}, {1'000'000'000, 1}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_THAT(file.check_unchanged().message(), HasSubstr("'" + path_ + "' was written to"));
}

TEST_P(BlockFileTest, AnEmptyFileOpens) {
  path_ = directory_.write("empty", "");
  EXPECT_EQ(open().bytes(), 0U);
}

TEST_P(BlockFileTest, RefusesADirectoryAndAPipe) {
  EXPECT_EQ(BlockFile::open(directory_.path(), GetParam()).status().code(),
            StatusCode::invalid_argument);
  const std::string pipe = directory_.path("pipe");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(BlockFile::open(pipe, GetParam()).status().code(), StatusCode::invalid_argument);
}

TEST_P(BlockFileTest, SaysThatAFileIsNotThere) {
  const auto file = BlockFile::open(path_ + ".not", GetParam());
  EXPECT_EQ(file.status().code(), StatusCode::not_found);
  EXPECT_THAT(file.status().message(), HasSubstr("No such file"));
}

INSTANTIATE_TEST_SUITE_P(Ways, BlockFileTest, testing::Values(DirectIo::automatic, DirectIo::off),
                         [](const auto& way) {
                           return way.param == DirectIo::off ? "buffered" : "direct";
                         });

}  // namespace
}  // namespace ple
