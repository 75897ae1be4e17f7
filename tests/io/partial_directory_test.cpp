#include "io/partial_directory.hpp"

#include <filesystem>
#include <optional>

#include "gmock/gmock.h"
#include "io/output_file.hpp"
#include "support/temp_directory.hpp"

namespace ple {
namespace {

namespace fs = std::filesystem;

Result<PartialDirectory> open(const std::string& name) {
  return PartialDirectory::open(name, "journal");
}

TEST(PartialDirectory, HasItsNameOnlyWhenItIsWhole) {
  const test::TempDirectory place;
  const std::string name = place.path("made");
  {
    const auto directory = open(name + "/");
    ASSERT_TRUE(directory.is_ok()) << directory.status().message();
    const auto file = OutputFile::open(directory.value().file("file"), 3);
    ASSERT_TRUE(file.is_ok());
    EXPECT_TRUE(file.value().write(0, std::as_bytes(std::span("abc", 3))).is_ok());
  }
  EXPECT_FALSE(fs::exists(name));
  auto again = open(name);  // what was there goes on
  ASSERT_TRUE(again.is_ok());
  EXPECT_EQ(fs::file_size(again.value().file("file")), 3U);
  ASSERT_TRUE(again.value().publish().is_ok());
  EXPECT_TRUE(fs::exists(name + "/file"));
  EXPECT_FALSE(fs::exists(name + ".partial"));
}

// The journal goes after the directory has its name: without it NAME.partial would be nobody's.
TEST(PartialDirectory, IsOpenedAgainToRemoveTheJournalThatAKillLeft) {
  const test::TempDirectory place;
  fs::create_directory(place.path("made"));
  place.write("made/file", "");
  place.write("made/journal", "");
  auto directory = open(place.path("made"));
  ASSERT_TRUE(directory.is_ok()) << directory.status().message();
  EXPECT_EQ(directory.value().path(), place.path("made"));
  directory.value().remove();  // leaves what is published
  ASSERT_TRUE(directory.value().publish().is_ok());
  EXPECT_TRUE(fs::exists(place.path("made/file")));
  EXPECT_FALSE(fs::exists(place.path("made/journal")));
  EXPECT_EQ(open(place.path("made")).status().code(), StatusCode::invalid_argument);
}

TEST(PartialDirectory, IsOpenOnceAndWritesOverNothing) {
  const test::TempDirectory place;
  const auto first = open(place.path("made"));
  ASSERT_TRUE(first.is_ok());
  EXPECT_EQ(open(place.path("made")).status().code(), StatusCode::wrong_state);
  EXPECT_EQ(open("").status().code(), StatusCode::invalid_argument);
  place.write("file", "");
  EXPECT_EQ(open(place.path("file")).status().code(), StatusCode::invalid_argument);
}

TEST(OutputFile, IsAsLongAsItWasSaidToBe) {
  const test::TempDirectory place;
  const std::string path = place.write("file", "0123456789");
  ASSERT_TRUE(OutputFile::open(path, 4).is_ok());
  EXPECT_EQ(fs::file_size(path), 4U);
  ASSERT_TRUE(OutputFile::open(path, 5000).is_ok());
  EXPECT_EQ(fs::file_size(path), 5000U);
}

TEST(LinkOrCopyFile, LinksThroughSymbolicLinksAndReplaces) {
  const test::TempDirectory place;
  const std::string from = place.write("from", "new");
  fs::create_symlink(from, place.path("link"));
  const std::string to = place.write("to", "old");
  ASSERT_TRUE(link_or_copy_file(place.path("link"), to).is_ok());
  EXPECT_FALSE(fs::is_symlink(to));
  EXPECT_EQ(fs::hard_link_count(from), 2U);
  ASSERT_TRUE(copy_file(from, place.path("copy")).is_ok());
  EXPECT_EQ(fs::file_size(place.path("copy")), 3U);
  EXPECT_EQ(link_or_copy_file(place.path("none"), to).code(), StatusCode::io_error);
}

}  // namespace
}  // namespace ple
