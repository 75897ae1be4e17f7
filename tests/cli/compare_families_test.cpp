// `compare` over the golden models of every family but qwen4_exp, as a user runs it.

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "support/test_device.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

using Words = std::vector<std::string>;

// Of a golden model and its file of vectors.
Words compare(const std::string& model, const Words& options) {
  const std::string directory = std::string(PLE_TEST_DATA) + "/golden/" + model;
  Words words = {"compare", directory, directory + "_io.safetensors", "--device", test_device()};
  words.insert(words.end(), options.begin(), options.end());
  if (std::ranges::find(words, "--arithmetic") == words.end()) {
    words.insert(words.end(), {"--arithmetic", "float32"});
  }
  return words;
}

void expect_close(const std::string& model, Words options, double rel_max) {
  for (const char* chunk : {"1", "5", "40"}) {
    Words chunked = options;
    chunked.insert(chunked.end(), {"--chunk", chunk});
    SCOPED_TRACE(testing::PrintToString(compare(model, chunked)));
    EXPECT_LE(tool_json(compare(model, chunked))["rel"], rel_max);
  }
}

Words engram(const std::string& layer, const std::string& output) {
  return {"--layer",          layer,       "--mask-name",   "token_mask",
          "--token-map-name", "token_map", "--output-name", "layer" + layer + "." + output};
}

class CompareFamilies : public testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }
};

TEST_F(CompareFamilies, EngramV41InBothProjections) {
  Words words = engram("14", "deq_f32.out_f32");
  words.insert(words.end(), {"--projection", "dequantized"});
  expect_close("engram_v41/tiny_hc4", words, 1e-5);
  expect_close("engram_v41/tiny_hc2", engram("3", "fp8.out_f32"), 1e-5);
  // Keys and values that are not rounded are 1.7e-3 away.
  words = engram("14", "fp8.out_f32");
  words.insert(words.end(), {"--projection", "dequantized"});
  EXPECT_EQ(run_tool(compare("engram_v41/tiny_hc4", words)).status, 1);
}

TEST_F(CompareFamilies, EngramV41HeedsTheMask) {
  Words words = engram("1", "fp8.out_f32");
  words.erase(words.begin() + 2, words.begin() + 4);
  // The masked ids are the image's, which is dead by itself.
  EXPECT_EQ(run_tool(compare("engram_v41/tiny_hc4", words)).status, 0);
  words.insert(words.end(), {"--mask-name", "no_such_tensor"});
  expect_refused(compare("engram_v41/tiny_hc4", words), {"no_such_tensor"});
}

TEST_F(CompareFamilies, EngramNeedsItsTokenMap) {
  expect_refused(
      compare("engram_demo/tiny_hc4", {"--layer", "1", "--output-name", "layer1.f32.out"}),
      {"token map"});
}

TEST_F(CompareFamilies, EngramDemo) {
  expect_close(
      "engram_demo/tiny_hc4",
      {"--layer", "15", "--token-map-name", "token_map", "--output-name", "layer15.f32.out"}, 1e-5);
}

TEST_F(CompareFamilies, LongcatIsBitEqualInTheReferenceArithmetic) {
  for (const char* model : {"longcat/tiny_lite", "longcat/tiny_next"}) {
    expect_close(model, {"--output-name", "f32.out"}, 1e-5);
    expect_close(model, {"--output-name", "bf16.out", "--arithmetic", "reference"}, 0);
  }
}

TEST_F(CompareFamilies, GemmaIsBitEqualInTheReferenceArithmetic) {
  for (const char* model : {"gemma/tiny_gemma3n", "gemma/tiny_gemma4"}) {
    expect_close(model,
                 {"--input-name", "f32.inputs_embeds", "--output-name", "f32.per_layer_inputs"},
                 1e-5);
    expect_close(model,
                 {"--input-name", "bf16.inputs_embeds", "--output-name", "bf16.per_layer_inputs",
                  "--arithmetic", "reference"},
                 0);
  }
}

TEST_F(CompareFamilies, OnlyFp8WeightsHaveAnFp8Projection) {
  expect_refused(compare("longcat/tiny_lite", {"--output-name", "f32.out", "--projection", "fp8"}),
                 {"fp8"});
}

}  // namespace
}  // namespace ple::test
