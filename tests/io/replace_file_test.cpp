#include "io/replace_file.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "support/temp_directory.hpp"

namespace ple {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

Status replace(const std::string& path, const std::string& bytes) {
  return replace_file(path, std::as_bytes(std::span(bytes)));
}

std::ptrdiff_t entries_in(const std::string& directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

TEST(ReplaceFile, MakesAFileAndReplacesIt) {
  const test::TempDirectory directory;
  const std::string path = directory.path("file");
  ASSERT_TRUE(replace(path, "first").is_ok());
  EXPECT_EQ(bytes_of(path), "first");
  ASSERT_TRUE(replace(path, "2").is_ok());
  EXPECT_EQ(bytes_of(path), "2");
  EXPECT_EQ(entries_in(directory.path()), 1);
}

TEST(ReplaceFile, AFailureLeavesNothingBehind) {
  const test::TempDirectory directory;
  // A folder cannot be replaced by a file.
  ASSERT_TRUE(std::filesystem::create_directory(directory.path("folder")));
  EXPECT_EQ(replace(directory.path("folder"), "bytes").code(), StatusCode::io_error);
  EXPECT_EQ(replace(directory.path("no/such/place"), "bytes").code(), StatusCode::io_error);
  EXPECT_EQ(entries_in(directory.path()), 1);
}

// A rename would put a file in the place of /dev/null, for whoever may.
TEST(ReplaceFile, ReplacesWhatALinkNamesAndNothingButFiles) {
  const test::TempDirectory directory;
  const std::string file = directory.write("file", "old");
  std::filesystem::create_symlink("file", directory.path("link"));
  ASSERT_TRUE(replace(directory.path("link"), "new").is_ok());
  EXPECT_TRUE(std::filesystem::is_symlink(directory.path("link")));
  EXPECT_EQ(bytes_of(file), "new");
  std::filesystem::create_symlink("nothing", directory.path("dangling"));
  EXPECT_EQ(replace(directory.path("dangling"), "bytes").code(), StatusCode::io_error);
  ASSERT_EQ(::mkfifo(directory.path("fifo").c_str(), 0600), 0);
  EXPECT_EQ(replace(directory.path("fifo"), "bytes").code(), StatusCode::io_error);
  EXPECT_TRUE(std::filesystem::is_fifo(directory.path("fifo")));
  EXPECT_EQ(entries_in(directory.path()), 4);
}

TEST(ReplaceFile, WhatAKillLeftIsRemoved) {
  const test::TempDirectory directory;
  directory.write("file", "whole");
  directory.write("file.partial-1", "who");
  directory.write("file.partial-22", "");
  directory.write("other.partial-3", "");
  remove_partial_files(directory.path("file"));
  EXPECT_EQ(bytes_of(directory.path("file")), "whole");
  EXPECT_EQ(entries_in(directory.path()), 2);
}

}  // namespace
}  // namespace ple
