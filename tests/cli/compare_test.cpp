#include <cstring>

#include "gmock/gmock.h"
#include "support/safetensors_file.hpp"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

const std::string kGolden = std::string(PLE_TEST_DATA) + "/golden/qwen4_exp";
const std::string kTiny = kGolden + "/tiny";
const std::string kCase = kGolden + "/tiny_io.safetensors";

TEST(Compare, TinyEqualsTheReferenceInEveryChunking) {
  for (const char* layer : {"0", "2"}) {
    for (const char* chunk : {"1", "2", "3", "7", "48"}) {
      for (const char* cache : {"0", "4096", "1GiB"}) {
        const nlohmann::json json = tool_json(
            {"compare", kTiny, kCase, "--layer", layer, "--chunk", chunk, "--cache-bytes", cache});
        EXPECT_LT(json["rel"], 1e-5);
        EXPECT_EQ(json["elements"], 2 * 48 * 256);
      }
    }
  }
}

TEST(Compare, SaysNoAboveTheTolerance) {
  const ToolResult result =
      run_tool({"compare", kTiny, kCase, "--layer", "0", "--tolerance", "1e-12", "--json"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.json()["ok"], false);
  EXPECT_GT(result.json()["rel"], 1e-12);
  // Another layer's output is far away.
  EXPECT_EQ(
      run_tool({"compare", kTiny, kCase, "--layer", "0", "--output-name", "layer2.out"}).status, 1);
}

// A case of one sequence; each test spoils one thing of it.
struct MadeUpCase {
  std::vector<FileTensor> tensors = {
      tensor_of<std::int64_t>("input_ids", DType::i64, {1, 3}, {1, 2, 3}),
      filled_tensor("layer0.hidden_in", DType::f32, {1, 3, 256}),
      filled_tensor("layer0.out", DType::f32, {1, 3, 256}),
  };

  FileTensor& ids() { return tensors[0]; }
  FileTensor& input() { return tensors[1]; }
  FileTensor& output() { return tensors[2]; }
};

std::vector<std::string> compare(const TempDirectory& directory, const std::string& bytes) {
  return {"compare", kTiny, directory.write("case.safetensors", bytes), "--layer", "0"};
}

std::vector<std::string> compare(const TempDirectory& directory, const MadeUpCase& made_up) {
  return compare(directory, safetensors_bytes(made_up.tensors));
}

TEST(Compare, AcceptsOtherTypesAndShapesOfTheSameTensors) {
  const TempDirectory directory;
  MadeUpCase made_up;
  made_up.ids() = tensor_of<std::int32_t>("input_ids", DType::i32, {1, 3}, {1, 2, 3});
  made_up.input() = filled_tensor("layer0.hidden_in", DType::bf16, {1, 3, 4, 64});
  made_up.output() = filled_tensor("layer0.out", DType::f16, {1, 3, 4, 64});
  EXPECT_EQ(run_tool(compare(directory, made_up)).status, 1);  // the layer adds something
}

TEST(Compare, RefusesCasesThatDoNotFit) {
  const TempDirectory directory;
  const std::string file = directory.path("case.safetensors");
  MadeUpCase made_up;
  made_up.ids() = tensor_of<std::int64_t>("input_ids", DType::i64, {1, 3}, {1, 512, 3});
  expect_refused(compare(directory, made_up), {file, "input_ids", "512 at [0, 1]", "[0, 512)"});

  made_up = {};
  made_up.ids().shape = {3};
  expect_refused(compare(directory, made_up), {file, "input_ids", "[3]", "[B, T]"});

  made_up = {};
  made_up.ids() = filled_tensor("input_ids", DType::f32, {1, 3});
  expect_refused(compare(directory, made_up), {file, "input_ids", "F32", "I64"});

  made_up = {};
  made_up.input() = filled_tensor("layer0.hidden_in", DType::f32, {1, 3, 255});
  expect_refused(compare(directory, made_up), {file, "layer0.hidden_in", "[1, 3, 255]", "256"});

  made_up = {};
  made_up.output() = filled_tensor("layer0.out", DType::f32, {1, 4, 256});
  expect_refused(compare(directory, made_up), {file, "layer0.out", "[1, 4, 256]", "[1, 3]"});

  made_up = {};
  made_up.output().name = "elsewhere";
  expect_refused(compare(directory, made_up), {file, "layer0.out", "elsewhere"});

  made_up = {};
  made_up.output() = filled_tensor("layer0.out", DType::i32, {1, 3, 256});
  expect_refused(compare(directory, made_up), {file, "layer0.out", "I32", "F32"});

  std::vector<std::string> masked = compare(directory, MadeUpCase());
  masked.insert(masked.end(), {"--mask-name", "mask"});
  expect_refused(masked, {file, "mask"});
}

TEST(Compare, RefusesFilesThatAreNotSafetensors) {
  const TempDirectory directory;
  const std::string file = directory.path("case.safetensors");
  const std::string good = safetensors_bytes(MadeUpCase().tensors);
  expect_refused(compare(directory, ""), {file, "0 bytes"});
  expect_refused(compare(directory, std::string(64, '\xff')), {file, "header"});
  expect_refused(compare(directory, good.substr(0, good.size() - 1)), {file, "end at byte"});
  expect_refused(compare(directory, good + "x"), {file, "end at byte"});
  expect_refused(compare(directory, safetensors_bytes("{", "")), {file, "JSON at byte 9"});
  expect_refused(compare(directory, safetensors_bytes("[]", "")), {file, "JSON object"});

  const auto with_header = [&](const char* header, const std::string& data) {
    return compare(directory, safetensors_bytes(header, data));
  };
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]},
                                 "a":{"dtype":"I8","shape":[1],"data_offsets":[0,1]}})",
                             "x"),
                 {file, "'a'", "twice"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,1]}})", "x"),
                 {file, "'a'", "[2]", "takes 2 bytes"});
  expect_refused(with_header(R"({"a":{"dtype":"I9","shape":[1],"data_offsets":[0,1]}})", "x"),
                 {file, "'a'", "I9"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[1]}})", "x"), {file, "'a'"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[-1],"data_offsets":[0,1]}})", "x"),
                 {file, "'a'"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[4294967296,4294967296,4],
                                 "data_offsets":[0,0]}})",
                             ""),
                 {file, "'a'", "overflows"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[1],"data_offsets":[1,2]}})", "xy"),
                 {file, "'a'", "byte"});
  expect_refused(with_header(R"({"a":{"dtype":"I8","shape":[2],"data_offsets":[0,2]},
                                 "b":{"dtype":"I8","shape":[2],"data_offsets":[1,3]}})",
                             "xyz"),
                 {file, "'b'"});
}

}  // namespace
}  // namespace ple::test
