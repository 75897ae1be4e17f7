#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/qwen4_exp.hpp"
#include "checkpoint/qwen4_exp_files.hpp"

namespace ple {
namespace {

using nlohmann::json;
using test::SmallQwen4Exp;
using testing::HasSubstr;

// The released config's keys, without the ones it leaves out.
const json kReleased = {{"model_type", "qwen4_exp"},
                        {"image_token_id", 248056},
                        {"text_config",
                         {{"model_type", "qwen4_exp_text"},
                          {"vocab_size", 248320},
                          {"hidden_size", 2560},
                          {"num_hidden_layers", 48},
                          {"hc_count", 4},
                          {"ple_layer_ids", {2}},
                          {"ple_embed_dim", 2560},
                          {"split_ngram_parts", 128},
                          {"eos_token_id", 248044}}}};

TEST(Qwen4ExpConfig, GivesTheReleasedGeometryByItself) {
  const auto model = parse_config(kReleased.dump(), "config.json");
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  ASSERT_EQ(model.value().layers.size(), 1U);
  const LayerSpec& layer = model.value().layers[0];
  EXPECT_EQ(layer.layer_index, 1);
  EXPECT_EQ(layer.hash->row_count(), 320001536U);
  const auto& hash = static_cast<const Qwen4ExpHash&>(*layer.hash);
  EXPECT_EQ(hash.columns().multipliers()[0], 23703573157769);  // of the absent seed, 1234
  EXPECT_FALSE(model.value().has_tensors());
  EXPECT_TRUE(layer.table.shards.empty());
}

TEST(Qwen4ExpConfig, NormalisesItsOneBasedLayers) {
  SmallQwen4Exp files;
  files.config["ple_layer_ids"] = {3, 1, 3};
  const ModelSpec model = parse_config(files.config.dump(), "config.json").value();
  ASSERT_EQ(model.layers.size(), 2U);
  EXPECT_EQ(model.layers[0].layer_index, 0);
  EXPECT_EQ(model.layers[1].layer_index, 2);
  // The primes go on from one layer to the next.
  const auto& second = static_cast<const Qwen4ExpHash&>(*model.layers[1].hash);
  EXPECT_EQ(second.columns().sizes(), (std::vector<std::int64_t>{31, 37, 41, 43}));
}

TEST(Qwen4ExpConfig, TakesTheFirstOfAListOfEosTokens) {
  SmallQwen4Exp files;
  files.config["eos_token_id"] = {1, 5};
  EXPECT_EQ(parse_config(files.config.dump(), "c").value().layers[0].hash->identity(),
            SmallQwen4Exp::hash()->identity());
}

TEST(Qwen4ExpConfig, UsesTheDefaultsOfTheReference) {
  json config = {{"model_type", "qwen4_exp_text"},
                 {"ple_layer_ids", {1}},
                 {"num_hidden_layers", 1},
                 {"eos_token_id", 1}};
  const auto model = parse_config(config.dump(), "c");
  ASSERT_TRUE(model.is_ok()) << model.status().message();
  const auto& parts = std::get<Qwen4ExpLayer>(model.value().layers[0].parts);
  EXPECT_EQ(model.value().vocab_size, 248320);
  EXPECT_EQ(parts.hidden, 2048);
  EXPECT_EQ(parts.embed_dim, 2048);
  EXPECT_EQ(parts.stream_count, 4);
  EXPECT_EQ(parts.tap_count, 4);
  EXPECT_EQ(parts.dilation, 3);
  EXPECT_EQ(parts.eps, 1e-6F);
  EXPECT_EQ(model.value().layers[0].hash->column_count(), 16);
}

TEST(Qwen4ExpConfig, RefusesEachWrongKeyByName) {
  const auto refuse = [](const std::string& key, const json& value, const std::string& reason) {
    SmallQwen4Exp files;
    files.config[key] = value;
    const auto model = parse_config(files.config.dump(), "config.json");
    ASSERT_FALSE(model.is_ok()) << key << " " << value;
    EXPECT_THAT(model.status().message(), HasSubstr("'config.json'"));
    EXPECT_THAT(model.status().message(), HasSubstr(reason)) << key;
  };
  refuse("ple_layer_ids", json::array(), "no layer has a memory");
  refuse("ple_layer_ids", {0}, "'ple_layer_ids' is 0, outside [1, 3]");
  refuse("ple_layer_ids", {4}, "'ple_layer_ids' is 4, outside [1, 3]");
  refuse("ple_layer_ids", {1.5}, "'ple_layer_ids' is 1.5, not an integer");
  refuse("ple_layer_ids", nullptr, "'ple_layer_ids' is missing");
  refuse("num_hidden_layers", nullptr, "'num_hidden_layers' is missing");
  refuse("eos_token_id", nullptr, "'eos_token_id' is missing");
  refuse("eos_token_id", json::array(), "'eos_token_id' is an empty list");
  refuse("eos_token_id", -1, "'eos_token_id' is -1");
  refuse("hc_count", 1, "'hc_count' is 1, outside [2,");
  refuse("hidden_size", 0, "'hidden_size' is 0");
  refuse("hidden_size", "5", "'hidden_size' is \"5\", not an integer");
  refuse("ple_embed_dim", 0, "'ple_embed_dim' is 0");
  refuse("ple_embed_dim", 13, "embed_dim 13 is not divisible by 4 heads");
  refuse("ngram_size", 1, "'ngram_size' is 1");
  refuse("heads_per_ngram", 0, "'heads_per_ngram' is 0");
  refuse("split_ngram_parts", 0, "'split_ngram_parts' is 0");
  refuse("make_ngram_vocab_size_divisible_by", 0, "'make_ngram_vocab_size_divisible_by' is 0");
  refuse("ple_conv_kernel_size", 0, "'ple_conv_kernel_size' is 0");
  refuse("vocab_size", 0, "'vocab_size' is 0");
  refuse("rms_norm_eps", 0.0, "eps is 0");
  refuse("rms_norm_eps", "x", "not a finite number");
  refuse("ngram_vocab_size_base", 4000000000, "beyond 2^32 - 1");
}

TEST(Qwen4ExpConfig, RefusesOtherModelsByType) {
  EXPECT_THAT(parse_config(R"({"model_type":"llama"})", "c").status().message(),
              HasSubstr("config 'c': model_type 'llama' is of no family known here"));
  EXPECT_FALSE(parse_config("{}", "c").is_ok());
  EXPECT_FALSE(parse_config(R"({"model_type":3})", "c").is_ok());
}

TEST(Qwen4ExpConfig, OpensFromAFileOrItsDirectory) {
  test::TempDirectory directory;
  directory.write("config.json", kReleased.dump());
  EXPECT_TRUE(open_config(directory.path()).is_ok());
  EXPECT_TRUE(open_config(directory.path("config.json")).is_ok());
  const auto missing = open_config(directory.path("nowhere.json"));
  EXPECT_EQ(missing.status().code(), StatusCode::not_found);
  EXPECT_THAT(missing.status().message(), HasSubstr("nowhere.json"));
}

TEST(Qwen4ExpConfig, RefusesADescriptionThatIsWrong) {
  const Qwen4ExpConfig good{
      .vocab_size = 64, .hidden = 5, .embed_dim = 16, .eos_token = 1, .layers = {0, 4}};
  ASSERT_TRUE(qwen4_exp_model(good, "d").is_ok());
  const auto refuse = [&good](auto&& change) {
    Qwen4ExpConfig config = good;
    change(config);
    return !qwen4_exp_model(config, "d").is_ok();
  };
  EXPECT_TRUE(refuse([](auto& c) { c.hidden = 0; }));
  EXPECT_TRUE(refuse([](auto& c) { c.embed_dim = -16; }));
  EXPECT_TRUE(refuse([](auto& c) { c.embed_dim = 17; }));
  EXPECT_TRUE(refuse([](auto& c) { c.stream_count = 1; }));
  EXPECT_TRUE(refuse([](auto& c) { c.tap_count = 0; }));
  EXPECT_TRUE(refuse([](auto& c) { c.eps = 0.0; }));
  EXPECT_TRUE(refuse([](auto& c) { c.eps = NAN; }));
  EXPECT_TRUE(refuse([](auto& c) { c.layers = {}; }));
  EXPECT_TRUE(refuse([](auto& c) { c.layers = {4, 4}; }));
  EXPECT_TRUE(refuse([](auto& c) { c.layers = {-1}; }));
  EXPECT_TRUE(refuse([](auto& c) { c.vocab_size = 0; }));
}

}  // namespace
}  // namespace ple
