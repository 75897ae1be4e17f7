#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "checkpoint/golden_tensors.hpp"
#include "checkpoint/token_map.hpp"
#include "ngram/engram_hash.hpp"
#include "ngram/longcat_hash.hpp"
#include "support/safetensors_file.hpp"
#include "support/temp_directory.hpp"

// The checkpoints of every family in its public layout, opened and asked for the rows that the
// public references asked for.

namespace ple {
namespace {

using test::golden_numbers;
using test::golden_path;
using testing::HasSubstr;

std::vector<TokenId> tokens_of(const std::vector<std::int64_t>& numbers) {
  return {numbers.begin(), numbers.end()};
}

ModelSpec open_golden(const std::string& name) {
  auto model = open_checkpoint(golden_path(name));
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  return std::move(model).value();
}

// Row ids of `sequences` equally long sequences, one after the other.
std::vector<RowId> rows_of(const RowHash& hash, const std::vector<TokenId>& tokens,
                           std::size_t sequences) {
  const std::size_t length = tokens.size() / sequences;
  const auto columns = static_cast<std::size_t>(hash.column_count());
  std::vector<RowId> rows(tokens.size() * columns);
  for (std::size_t b = 0; b < sequences; ++b) {
    hash.row_ids({}, std::span(tokens).subspan(b * length, length),
                 rows.data() + b * length * columns);
  }
  return rows;
}

TEST(EngramV41Checkpoint, OpensThePublicLayoutAndAsksForTheReferencesRows) {
  for (const std::string name : {"engram_v41/tiny_hc4", "engram_v41/tiny_hc2"}) {
    ModelSpec model = open_golden(name);
    EXPECT_EQ(model.family, Family::engram_v41);
    EXPECT_TRUE(model.layers[0].hash->needs_token_map());
    const std::string io = name + "_io.safetensors";
    const Status status = set_token_map(model, tokens_of(golden_numbers(io, "token_map")));
    ASSERT_TRUE(status.is_ok()) << status.message();

    std::vector<TokenId> tokens = tokens_of(golden_numbers(io, "input_ids"));
    const std::vector<std::int64_t> mask = golden_numbers(io, "token_mask");
    // The masked positions hold the id of images, which is dead by itself.
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(model.layers[0].hash->is_dead(tokens[i]), mask[i] == 0);
    }
    const std::vector<std::int64_t> expected =
        golden_numbers(io, "row_ids");  // [b, t, layer, column]
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const RowHash& hash = *model.layers[l].hash;
      const auto columns = static_cast<std::size_t>(hash.column_count());
      const std::vector<RowId> rows = rows_of(hash, tokens, 2);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::size_t position = i / columns;
        ASSERT_EQ(rows[i], expected[(position * model.layers.size() + l) * columns + i % columns]);
      }
      const TableSpec& table = model.layers[l].table;
      EXPECT_EQ(table.encoding.format, RowFormat::fp8_e4m3_e8m0);
      ASSERT_EQ(table.part_bytes.size(), 2U);
      EXPECT_EQ(table.part_bytes[0], 32 * table.part_bytes[1]);
      EXPECT_EQ(table.shards.size(), 2U);
    }
  }
}

TEST(EngramV41Checkpoint, KnowsItsShape) {
  const ModelSpec model = open_golden("engram_v41/tiny_hc4");
  ASSERT_EQ(model.layers.size(), 2U);
  EXPECT_EQ(model.layers[1].layer_index, 14);
  const auto& parts = std::get<EngramLayer>(model.layers[1].parts);
  EXPECT_EQ(parts.hidden, 64);
  EXPECT_EQ(parts.stream_count, 4);
  EXPECT_EQ(parts.embed_dim, 192);
  EXPECT_EQ(parts.eps, 1e-20F);
  EXPECT_EQ(parts.key_value.shape, (std::vector<std::int64_t>{320, 192}));
  EXPECT_EQ(parts.key_value_scale.shape, (std::vector<std::int64_t>{10, 6}));
}

TEST(EngramDemoCheckpoint, OpensAndAsksForTheReferencesRows) {
  for (const std::string name : {"engram_demo/tiny_hc4", "engram_demo/tiny_hc2"}) {
    ModelSpec model = open_golden(name);
    EXPECT_EQ(model.family, Family::engram_demo);
    const std::string io = name + "_io.safetensors";
    ASSERT_TRUE(set_token_map(model, tokens_of(golden_numbers(io, "token_map"))).is_ok());
    const std::vector<TokenId> tokens = tokens_of(golden_numbers(io, "input_ids"));
    for (const LayerSpec& layer : model.layers) {
      const auto expected =
          golden_numbers(io, "layer" + std::to_string(layer.layer_index) + ".row_ids");
      const std::vector<RowId> rows = rows_of(*layer.hash, tokens, 2);
      EXPECT_EQ((std::vector<std::int64_t>{rows.begin(), rows.end()}), expected);
    }
    const auto& parts = std::get<EngramDemoLayer>(model.layers[0].parts);
    EXPECT_EQ(parts.key.size(), static_cast<std::size_t>(parts.stream_count));
    EXPECT_EQ(parts.eps, 1.1920929e-07F);
    EXPECT_EQ(parts.conv_eps, 1e-5F);
  }
}

TEST(LongcatCheckpoint, OpensThePublicLayoutAndAsksForTheReferencesRows) {
  for (const std::string name :
       {"longcat/tiny_lite", "longcat/tiny_next", "longcat/tiny_lite_float_ratio"}) {
    const ModelSpec model = open_golden(name);
    EXPECT_EQ(model.family, Family::longcat);
    ASSERT_EQ(model.layers.size(), 1U);
    const LayerSpec& layer = model.layers[0];
    const auto& parts = std::get<LongcatLayer>(layer.parts);
    const auto& hash = static_cast<const LongcatHash&>(*layer.hash);
    EXPECT_EQ(parts.projection.size(), static_cast<std::size_t>(parts.table_count));
    EXPECT_EQ(layer.table.shards.size(), static_cast<std::size_t>(parts.table_count));
    const std::string io = name + "_io.safetensors";
    const std::vector<std::int64_t> expected = golden_numbers(io, "ids");
    const std::vector<RowId> rows = rows_of(hash, tokens_of(golden_numbers(io, "input_ids")), 2);
    const std::vector<std::int64_t> offsets = hash.offsets();
    const bool is_next = !parts.ignored_tokens.empty();
    EXPECT_EQ(is_next, name == "longcat/tiny_next");
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const RowId row = static_cast<RowId>(expected[i] + offsets[i % offsets.size()]);
      ASSERT_EQ(rows[i], is_next && expected[i] == 0 ? kNoRow : row);
    }
  }
}

TEST(GemmaCheckpoint, OpensThePublicLayoutAndAsksForTheReferencesRows) {
  for (const std::string name : {"gemma/tiny_gemma3n", "gemma/tiny_gemma4"}) {
    const ModelSpec model = open_golden(name);
    EXPECT_EQ(model.family, Family::gemma);
    const LayerSpec& layer = model.layers[0];
    const auto& parts = std::get<GemmaLayer>(layer.parts);
    EXPECT_EQ(parts.hidden, 96);
    EXPECT_EQ(parts.layer_count, 4);
    EXPECT_EQ(parts.layer_dim, 24);
    EXPECT_EQ(parts.scalars_in_bf16, name == "gemma/tiny_gemma3n");
    EXPECT_EQ(layer.table.encoding.row_bytes, 4 * 24 * 2);
    const std::string io = name + "_io.safetensors";
    const std::vector<RowId> rows =
        rows_of(*layer.hash, tokens_of(golden_numbers(io, "input_ids")), 2);
    EXPECT_EQ((std::vector<std::int64_t>{rows.begin(), rows.end()}),
              golden_numbers(io, "per_layer_ids"));
  }
}

// A directory with the golden config and files linked in, so that a map can lie beside them.
void link_golden(const std::string& name, const test::TempDirectory& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(golden_path(name))) {
    std::filesystem::create_symlink(std::filesystem::absolute(entry.path()),
                                    directory.path(entry.path().filename().string()));
  }
}

TEST(TokenMap, IsFoundBesideTheConfigInBothForms) {
  const auto numbers = golden_numbers("engram_v41/tiny_hc4_io.safetensors", "token_map");
  const std::vector<TokenId> map = tokens_of(numbers);
  const auto tensor = test::tensor_of("token_map", DType::i32, {std::ssize(map)}, map);
  std::uint64_t identity = 0;
  for (const bool is_tensor : {true, false}) {
    test::TempDirectory directory;
    link_golden("engram_v41/tiny_hc4", directory);
    const std::string path =
        is_tensor ? directory.write("token_map.safetensors", test::safetensors_bytes({tensor}))
                  : directory.write("token_map.i32", tensor.bytes);
    EXPECT_EQ(read_token_map(path).value(), map);
    const auto model = open_checkpoint(directory.path());
    ASSERT_TRUE(model.is_ok()) << model.status().message();
    EXPECT_FALSE(model.value().layers[0].hash->needs_token_map());
    const auto config = open_config(directory.path("config.json"));
    ASSERT_TRUE(config.is_ok()) << config.status().message();
    EXPECT_EQ(config.value().geometry_identity, model.value().geometry_identity);
    EXPECT_TRUE(identity == 0 || identity == model.value().geometry_identity);
    identity = model.value().geometry_identity;
  }
}

TEST(TokenMap, IsRefusedWhenItIsNotTheModels) {
  test::TempDirectory directory;
  link_golden("engram_v41/tiny_hc4", directory);
  directory.write("token_map.i32", std::string(4 * 159, '\0'));
  EXPECT_THAT(open_checkpoint(directory.path()).status().message(),
              HasSubstr("token_map.i32': the token map has 159 entries, the vocabulary 160"));
  directory.write("token_map.i32", std::string(5, '\0'));
  EXPECT_THAT(open_checkpoint(directory.path()).status().message(),
              HasSubstr("a token map of 5 bytes"));
  directory.write("token_map.safetensors",
                  test::safetensors_bytes({test::filled_tensor("other", DType::i32, {4})}));
  EXPECT_THAT(open_checkpoint(directory.path()).status().message(),
              HasSubstr("lacks tensor 'token_map'"));
  directory.write("token_map.safetensors",
                  test::safetensors_bytes({test::filled_tensor("token_map", DType::i64, {4})}));
  EXPECT_THAT(open_checkpoint(directory.path()).status().message(),
              HasSubstr("is I64 [4], expected I32"));
  ModelSpec other = open_golden("gemma/tiny_gemma4");
  EXPECT_THAT(set_token_map(other, std::vector<TokenId>{0}).message(),
              HasSubstr("takes no token map"));
}

TEST(ReleasedModels, DeriveTheirConstantsFromTheConfigAlone) {
  const auto rows = [](const std::string& config) {
    const auto model = parse_config(config, "config.json");
    EXPECT_TRUE(model.is_ok()) << model.status().message();
    std::vector<std::uint64_t> counts;
    for (const LayerSpec& layer : model.value().layers) counts.push_back(layer.hash->row_count());
    return counts;
  };
  using Counts = std::vector<std::uint64_t>;
  EXPECT_EQ(
      rows(
          R"({"model_type":"deepseek_v41","image_token_id":129264,"text_config":{"vocab_size":129280,
      "hidden_size":5120,"num_hidden_layers":40,"hc_mult":4,"rms_norm_eps":1e-20,"engram_layer_ids":[1,14],
      "engram_num_embeddings":[384006168,384016682],"engram_max_ngram_size":4,"engram_vocab_size":16000000,
      "engram_n_heads":8,"engram_head_dim":256,"engram_pad_token_id":2,"engram_compressed_vocab_size":99092}})"),
      (Counts{384006168, 384016682}));
  EXPECT_EQ(rows(R"({"model_type":"longcat_flash_ngram","vocab_size":131072,"hidden_size":3072,
      "ngram_vocab_size_ratio":78,"emb_neighbor_num":4,"emb_split_num":4,"eos_token_id":2})"),
            Counts{122683536});
  EXPECT_EQ(
      rows(
          R"({"model_type":"longcat","vocab_size":163840,"hidden_size":8192,"oe_vocab_size_ratio":100.567,
      "oe_neighbor_num":5,"oe_split_num":4,"eos_token_id":2,"oe_ignored_token_ids":[2,3]})"),
      Counts{263630608});
  EXPECT_EQ(
      rows(
          R"({"model_type":"gemma3n_text","vocab_size":262400,"hidden_size":2048,"num_hidden_layers":30})"),
      Counts{262144});
}

TEST(EngramConfig, RefusesEachWrongKeyByName) {
  std::ifstream stream(golden_path("engram_v41/tiny_hc4/config.json"));
  const auto golden = nlohmann::json::parse(stream);
  const auto refuse = [&golden](const std::string& key, const nlohmann::json& value,
                                const std::string& reason) {
    auto config = golden;
    config["text_config"][key] = value;
    EXPECT_THAT(parse_config(config.dump(), "config.json").status().message(), HasSubstr(reason))
        << key;
  };
  refuse("engram_num_embeddings", {660}, "'engram_num_embeddings' has 1 entries for 2 layers");
  refuse("engram_num_embeddings", {660, 865},
         "'engram_num_embeddings' [1] is 865, the primes add up to 864");
  refuse("engram_pad_token_id", 160, "the pad token is 160, outside [0, 159]");
  refuse("engram_head_dim", 48, "'engram_head_dim' is 48, not a multiple of 32");
  refuse("engram_layer_ids", {1, 15}, "'engram_layer_ids' is 15, outside [0, 14]");
  refuse("engram_layer_ids", {14, 1}, "'engram_layer_ids' are not ascending");
  refuse("engram_rotation_config", {{"x", 1}}, "'engram_rotation_config' is not supported");
  refuse("engram_compressed_vocab_size", 161, "the compressed vocabulary size is 161");
  refuse("rms_norm_eps", 0, "'rms_norm_eps' is 0");
  refuse("hidden_size", 10, "5 rows of it are no multiple of 32");
  auto renamed = golden;
  renamed["text_config"].erase("engram_pad_token_id");
  renamed["text_config"]["engram_pad_id"] = 3;
  EXPECT_TRUE(parse_config(renamed.dump(), "c").is_ok());
}

TEST(LongcatConfig, RefusesEachWrongKeyByName) {
  const auto refuse = [](const std::string& key, const nlohmann::json& value,
                         const std::string& reason) {
    nlohmann::json config = {{"model_type", "longcat_flash_ngram"},
                             {"vocab_size", 97},
                             {"hidden_size", 96},
                             {"ngram_vocab_size_ratio", 5},
                             {"emb_neighbor_num", 4},
                             {"emb_split_num", 4},
                             {"eos_token_id", 2}};
    config[key] = value;
    EXPECT_THAT(parse_config(config.dump(), "config.json").status().message(), HasSubstr(reason))
        << key;
  };
  refuse("emb_neighbor_num", 1, "'emb_neighbor_num' is 1");
  refuse("emb_split_num", 0, "'emb_split_num' is 0");
  refuse("hidden_size", 97, "'hidden_size' 97 is not divisible by 12 tables");
  refuse("eos_token_id", nlohmann::json::array(), "'eos_token_id' is an empty list");
  refuse("ngram_vocab_size_ratio", -1, "the vocabulary ratio is -1");
  refuse("text_vocab_size", 98, "the hash's vocabulary is 98");
  // A ratio of null means that the feature is off.
  refuse("ngram_vocab_size_ratio", nullptr, "is missing");
}

TEST(GemmaConfig, RefusesAModelWithoutPerLayerEmbeddings) {
  EXPECT_THAT(parse_config(R"({"model_type":"gemma4_text","vocab_size":262144,"hidden_size":2560,
                               "num_hidden_layers":42})",
                           "c")
                  .status()
                  .message(),
              HasSubstr("the model has no per-layer embeddings"));
}

}  // namespace
}  // namespace ple
