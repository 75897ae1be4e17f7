#include "checkpoint/tensor_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <string>

#include "support/safetensors_file.hpp"
#include "support/temp_directory.hpp"

namespace ple {
namespace {

using test::safetensors_bytes;
using test::TempDirectory;
using testing::HasSubstr;

std::string one_tensor(const std::string& name, const std::string& bytes) {
  return safetensors_bytes({{name, DType::u8, {std::ssize(bytes)}, bytes}});
}

std::string index_of(const std::string& entries) { return R"({"weight_map":{)" + entries + "}}"; }

void expect_refused(const TempDirectory& directory, const std::string& reason) {
  const auto files = TensorFiles::open(directory.path());
  ASSERT_FALSE(files.is_ok());
  EXPECT_THAT(files.status().message(), HasSubstr(reason));
}

TEST(TensorFiles, FindTheTensorsOfEveryFileWithoutAnIndex) {
  TempDirectory directory;
  directory.write("b.safetensors", one_tensor("second", "xyz"));
  directory.write("a.safetensors", one_tensor("first", "uv"));
  directory.write("notes.txt", "not one of them");
  const auto opened = TensorFiles::open(directory.path());
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  const TensorFiles& files = opened.value();
  ASSERT_EQ(files.files().size(), 2U);
  EXPECT_EQ(files.files()[1].path, directory.path("b.safetensors"));
  EXPECT_EQ(files.files()[1].bytes, std::filesystem::file_size(directory.path("b.safetensors")));
  const TensorInfo* second = files.find("second");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->file_index, 1U);
  std::array<std::byte, 3> bytes;
  ASSERT_TRUE(files.read(*second, bytes).is_ok());
  EXPECT_EQ(bytes[0], std::byte{'x'});
  EXPECT_EQ(files.find("third"), nullptr);
  EXPECT_THAT(files.require("third").status().message(), HasSubstr("lacks tensor 'third'"));
}

TEST(TensorFiles, FollowAnIndexAndSymbolicLinks) {
  TempDirectory blobs;
  TempDirectory directory;
  blobs.write("5ca1ab1e", one_tensor("t", "x"));
  std::filesystem::create_symlink(blobs.path("5ca1ab1e"), directory.path("model-1.safetensors"));
  directory.write("unlisted.safetensors", "not even a safetensors file");
  directory.write("model.safetensors.index.json", index_of(R"("t":"model-1.safetensors")"));
  const auto files = TensorFiles::open(directory.path());
  ASSERT_TRUE(files.is_ok()) << files.status().message();
  EXPECT_NE(files.value().find("t"), nullptr);
  EXPECT_EQ(files.value().files().size(), 1U);
}

TEST(TensorFiles, RefuseAnIndexThatLeavesTheDirectory) {
  for (const std::string name : {"../x.safetensors", "/etc/passwd", "a/../../x", "..", "", ".",
                                 "a//b", "a\\\\b", "a\\u0000b"}) {
    TempDirectory directory;
    directory.write("model.safetensors.index.json", index_of(R"("t":")" + name + "\""));
    expect_refused(directory, "leads out of the directory");
  }
}

TEST(TensorFiles, RefuseAnIndexThatIsWrong) {
  TempDirectory directory;
  directory.write("a.safetensors", one_tensor("t", "x"));
  directory.write("b.safetensors", one_tensor("u", "x"));
  const auto refuse = [&](const std::string& index, const std::string& reason) {
    directory.write("model.safetensors.index.json", index);
    expect_refused(directory, reason);
  };
  refuse(index_of(R"("t":"a.safetensors","v":"a.safetensors")"), "says that tensor 'v' is in");
  refuse(index_of(R"("t":"a.safetensors","u":"a.safetensors")"), "says that tensor 'u' is in");
  refuse(index_of(R"("t":"b.safetensors","u":"a.safetensors")"), "but it is not");
  refuse(index_of(R"("t":"gone.safetensors")"), "cannot open");
  refuse(index_of(R"("t":3)"), "the file of tensor 't' is not a string");
  refuse(index_of(R"("t":"a.safetensors","t":"b.safetensors")"), "key 't' twice");
  refuse("{}", "has no weight_map");
  refuse("[]", "the top level is not an object");
  refuse("{", "is not valid JSON: line 1, column 2");
}

TEST(TensorFiles, ChooseTheUsualIndexOrTheOnlyOne) {
  TempDirectory directory;
  directory.write("a.safetensors", one_tensor("t", "x"));
  directory.write("one.safetensors.index.json", index_of(R"("t":"a.safetensors")"));
  EXPECT_TRUE(TensorFiles::open(directory.path()).is_ok());
  directory.write("two.safetensors.index.json", "{}");
  expect_refused(directory, "holds 2 indexes, none of them model.safetensors.index.json");
  directory.write("model.safetensors.index.json", index_of(R"("t":"a.safetensors")"));
  EXPECT_TRUE(TensorFiles::open(directory.path()).is_ok());
}

TEST(TensorFiles, RefuseATensorInTwoFiles) {
  TempDirectory directory;
  directory.write("a.safetensors", one_tensor("t", "x"));
  directory.write("b.safetensors", one_tensor("t", "x"));
  expect_refused(directory, "tensor 't' is in");
}

TEST(TensorFiles, RefuseTruncatedFilesAndOnesThatAreNone) {
  const std::string whole = one_tensor("t", "hello");
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    TempDirectory directory;
    directory.write("a.safetensors", whole.substr(0, bytes));
    expect_refused(directory, "a.safetensors");
  }
  TempDirectory longer;
  longer.write("a.safetensors", whole + "!");
  expect_refused(longer, "the tensors take 5 bytes, the file has 6 behind its header");
  TempDirectory empty;
  expect_refused(empty, "holds no safetensors file");
  std::filesystem::create_directory(empty.path("a.safetensors"));
  expect_refused(empty, "is not a regular file");
  EXPECT_EQ(TensorFiles::open(empty.path("nowhere")).status().code(), StatusCode::not_found);
}

}  // namespace
}  // namespace ple
