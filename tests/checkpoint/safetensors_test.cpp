#include "checkpoint/safetensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>

namespace ple {
namespace {

using testing::HasSubstr;

// Parses a header in front of data_bytes of data.
Result<std::vector<TensorInfo>> parse(const std::string& header, std::uint64_t data_bytes) {
  return parse_safetensors_header(header, kSafetensorsPrefixBytes + header.size() + data_bytes,
                                  "x.safetensors");
}

void expect_refused(const std::string& header, std::uint64_t data_bytes,
                    const std::string& reason) {
  const auto tensors = parse(header, data_bytes);
  ASSERT_FALSE(tensors.is_ok()) << header;
  EXPECT_EQ(tensors.status().code(), StatusCode::corrupt);
  EXPECT_THAT(tensors.status().message(), HasSubstr(reason));
  EXPECT_THAT(tensors.status().message(), HasSubstr("x.safetensors"));
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

TEST(SafetensorsHeader, ListsTensorsByOffsetInTheFile) {
  const std::string header =
      "{" + entry("b", "F32", "[2,3]", "[4,28]") + "," + entry("a", "BF16", "[2]", "[0,4]") + "," +
      entry("empty", "I8", "[0,7]", "[28,28]") + "," + R"("__metadata__":{"format":"pt"}}  )";
  const auto tensors = parse(header, 28);
  ASSERT_TRUE(tensors.is_ok()) << tensors.status().message();
  ASSERT_EQ(tensors.value().size(), 3U);
  const TensorInfo& a = tensors.value()[0];
  EXPECT_EQ(a.name, "a");
  EXPECT_EQ(a.dtype, DType::bf16);
  EXPECT_EQ(a.offset, 8 + header.size());
  EXPECT_EQ(a.bytes, 4U);
  const TensorInfo& b = tensors.value()[1];
  EXPECT_EQ(b.name, "b");
  EXPECT_EQ(b.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(b.offset, 8 + header.size() + 4);
  EXPECT_EQ(tensors.value()[2].bytes, 0U);
}

TEST(SafetensorsHeader, AcceptsAScalarAndAFileWithoutTensors) {
  EXPECT_TRUE(parse("{" + entry("a", "F32", "[]", "[0,4]") + "}", 4).is_ok());
  EXPECT_TRUE(parse("{}", 0).is_ok());
}

TEST(SafetensorsHeader, RefusesHolesOverlapsAndRests) {
  expect_refused("{" + entry("a", "U8", "[2]", "[1,3]") + "}", 3, "tensor 'a' starts at 1");
  expect_refused(
      "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[3,5]") + "}", 5,
      "tensor 'b' starts at 3 of the data, the one before ends at 2");
  expect_refused(
      "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}", 3,
      "tensor 'b' starts at 1 of the data, the one before ends at 2");
  expect_refused("{" + entry("a", "U8", "[2]", "[0,2]") + "}", 3,
                 "the tensors take 2 bytes, the file has 3");
  expect_refused("{" + entry("a", "U8", "[4]", "[0,4]") + "}", 3,
                 "the tensors take 4 bytes, the file has 3");
}

TEST(SafetensorsHeader, RefusesSizesThatDoNotFitTheShape) {
  expect_refused("{" + entry("a", "F32", "[2]", "[0,4]") + "}", 4, "F32 shape [2] needs 8");
  expect_refused("{" + entry("a", "F4", "[3]", "[0,1]") + "}", 1,
                 "needs more than 63 bits or a part of a byte");
  // 2^32 * 2^32 elements wrap to zero, 2^31 * 2^31 * 2 bytes to 2^63.
  expect_refused("{" + entry("a", "U8", "[4294967296,4294967296]", "[0,0]") + "}", 0,
                 "needs more than 63 bits");
  expect_refused("{" + entry("a", "BF16", "[2147483648,2147483648]", "[0,0]") + "}", 0,
                 "needs more than 63 bits");
  expect_refused("{" + entry("a", "U8", "[1]", "[3,2]") + "}", 3,
                 "data_offsets are not a begin and an end");
  expect_refused("{" + entry("a", "U8", "[1]", "[0,1,1]") + "}", 1,
                 "data_offsets are not a begin and an end");
  expect_refused("{" + entry("a", "U8", "[1]", "[0,18446744073709551615]") + "}", 1,
                 "exceeds 63 bits");
}

TEST(SafetensorsHeader, RefusesRepeatedKeys) {
  const std::string a = entry("a", "U8", "[1]", "[0,1]");
  expect_refused("{" + a + "," + a + "}", 1, "tensor 'a': it is there twice");
  expect_refused(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1,
                 "field 'dtype' twice");
  expect_refused(R"({"__metadata__":{"x":"1","x":"2"}})", 0, "field 'x' twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", 0, "twice");
}

TEST(SafetensorsHeader, RefusesWhatIsNotTheFormat) {
  expect_refused("", 0, "does not start with '{'");
  expect_refused(" {}", 0, "does not start with '{'");
  expect_refused("[]", 0, "does not start with '{'");
  expect_refused("{", 0, "not valid JSON at byte 9: unexpected end of input; expected string");
  expect_refused("{}{}", 0, "not valid JSON at byte 10: unexpected '{'; expected end of input");
  expect_refused("{\"\xff\":{}}", 0, "not valid JSON at byte 10: invalid string: ill-formed UTF-8");
  expect_refused(R"({"a":{}})", 0, "lacks one of dtype, shape and data_offsets");
  expect_refused(R"({"a":{"dtype":"U8","shape":[1]}})", 1, "lacks one of");
  expect_refused(R"({"a":5})", 0, "a number out of place");
  expect_refused(R"({"a":"U8"})", 0, "a string out of place");
  expect_refused(R"({"a":[1]})", 0, "a list out of place");
  expect_refused(R"({"a":{"dtype":{"x":1}}})", 0, "nested too deep");
  expect_refused(R"({"a":{"shape":[[1]]}})", 0, "a list out of place");
  expect_refused(R"({"a":{"extra":1}})", 0, "unknown field 'extra'");
  expect_refused(R"({"__metadata__":{"x":1}})", 0, "a number out of place");
  expect_refused("{" + entry("a", "Q7", "[1]", "[0,1]") + "}", 1, "unknown dtype 'Q7'");
  expect_refused("{" + entry("a", "U8", "[-1]", "[0,1]") + "}", 1, "negative number -1");
  expect_refused("{" + entry("a", "U8", "[1.0]", "[0,1]") + "}", 1, "number 1.0 is not an integer");
  expect_refused("{" + entry("a", "U8", "[null]", "[0,1]") + "}", 1, "a null out of place");
  std::string many = "[1";
  for (int i = 0; i < 40; ++i) many += ",1";
  expect_refused("{" + entry("a", "U8", many + "]", "[0,1]") + "}", 1, "more than 32 numbers");
}

std::array<std::byte, 8> prefix_of(std::uint64_t bytes) {
  std::array<std::byte, 8> prefix;
  std::memcpy(prefix.data(), &bytes, sizeof bytes);
  return prefix;
}

TEST(SafetensorsHeader, BoundsItsLength) {
  EXPECT_EQ(safetensors_header_bytes(prefix_of(92), 100, "x").value(), 92U);
  EXPECT_THAT(safetensors_header_bytes(prefix_of(93), 100, "x").status().message(),
              HasSubstr("a header of 93 bytes does not fit the file of 100"));
  EXPECT_THAT(safetensors_header_bytes(prefix_of(100'000'001), 1ULL << 40, "x").status().message(),
              HasSubstr("beyond the bound of 100000000"));
  EXPECT_FALSE(safetensors_header_bytes(prefix_of(~std::uint64_t{0}), 100, "x").is_ok());
}

}  // namespace
}  // namespace ple
