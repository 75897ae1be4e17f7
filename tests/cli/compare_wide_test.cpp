// The released width against the public reference, as a checkpoint that the tool opens.

#include <cstdint>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/safetensors_file.hpp"
#include "support/temp_directory.hpp"
#include "support/test_device.hpp"
#include "support/tool.hpp"
#include "support/wide_case.hpp"

namespace ple::test {
namespace {

std::string config_of(const WideCase& wide) {
  const kernels::PleShape& shape = wide.problem.shape;
  return nlohmann::json{{"model_type", "qwen4_exp_text"},
                        {"vocab_size", 248320},
                        {"hidden_size", shape.hidden},
                        {"num_hidden_layers", 1},
                        {"hc_count", shape.stream_count},
                        {"ple_layer_ids", {1}},
                        {"ple_embed_dim", shape.embed_dim},
                        {"ngram_size", shape.dilation},
                        {"heads_per_ngram", shape.column_count / (shape.dilation - 1)},
                        {"ngram_vocab_size_base", 3001},
                        {"eos_token_id", 248046},
                        {"rms_norm_eps", shape.eps},
                        {"ple_conv_kernel_size", shape.tap_count}}
      .dump();
}

// The checkpoint, and case.safetensors beside it.
void write_wide(const TempDirectory& directory, const std::string& type) {
  const WideCase wide = wide_case(type);
  const kernels::PleShape& shape = wide.problem.shape;
  const std::int64_t highway = wide.problem.channel_count();
  const std::string prefix = "model.layers.0.ple.";
  const auto weight = [&](const std::string& name, std::vector<std::int64_t> extents,
                          const auto& values) {
    return tensor_of(prefix + name + ".weight", DType::bf16, std::move(extents), values);
  };
  directory.write("config.json", config_of(wide));
  directory.write(
      "model.safetensors",
      safetensors_bytes(
          {weight("ple_embedding.ngram_embedding",
                  {wide.problem.row_count, wide.problem.encoding.dim}, wide.problem.table),
           weight("key_proj", {highway, shape.embed_dim}, wide.problem.key),
           weight("value_proj", {shape.hidden, shape.embed_dim}, wide.problem.value),
           weight("norm_key", {highway}, wide.problem.norm_key),
           weight("norm_query", {highway}, wide.problem.norm_query),
           weight("norm_conv", {highway}, wide.problem.norm_conv),
           weight("conv1d", {highway, 1, shape.tap_count}, wide.problem.conv)}));
  const std::int64_t length = wide.sequence.token_count;
  const auto tokens =
      golden_tensor<std::int64_t>("golden/qwen4_exp/wide_" + type + ".safetensors", "tokens");
  directory.write(
      "case.safetensors",
      safetensors_bytes(
          {tensor_of("input_ids", DType::i64, {1, length}, tokens),
           tensor_of("layer0.hidden_in", DType::f32, {1, length, highway}, wide.sequence.highway),
           tensor_of("layer0.out", DType::f32, {1, length, highway}, wide.output)}));
}

class CompareWide : public testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }

  double error_in(const TempDirectory& directory, const std::string& arithmetic) {
    const nlohmann::json json =
        tool_json({"compare", directory.path(), directory.path("case.safetensors"), "--layer", "0",
                   "--device", test_device(), "--arithmetic", arithmetic, "--tolerance", "1"});
    EXPECT_EQ(json["elements"], 24 * 10240);
    const double error = json["rel"];
    std::printf("%s: rel %.2e\n", arithmetic.c_str(), error);
    return error;
  }
};

TEST_F(CompareWide, EveryArithmeticIsCloseToItsReference) {
  TempDirectory directory;
  write_wide(directory, "f32");
  EXPECT_LT(error_in(directory, "float32"), 1e-5);
  EXPECT_LT(error_in(directory, "mixed"), 2e-3);
  write_wide(directory, "bf16");
  EXPECT_LT(error_in(directory, "reference"), 1e-3);
}

}  // namespace
}  // namespace ple::test
