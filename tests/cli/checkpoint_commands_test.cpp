// inspect, ids and verify.

#include <fstream>

#include "gmock/gmock.h"
#include "support/json_file.hpp"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

using testing::HasSubstr;

const std::string kTiny = std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny";

TEST(Tool, HelpOfEveryCommandHasExamples) {
  const std::vector<std::vector<std::string>> commands = {
      {},          {"synth"},  {"inspect"},        {"ids"},         {"run"},
      {"compare"}, {"verify"}, {"bench", "layer"}, {"bench", "io"}, {"bench", "cache"}};
  for (std::vector<std::string> command : commands) {
    command.emplace_back("--help");
    const ToolResult result = run_tool(command);
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.out, HasSubstr("Examples:"));
    EXPECT_THAT(result.out, command.size() == 1 ? HasSubstr("synth") : HasSubstr("--json"));
  }
}

// Names of files are any bytes; JSON is UTF-8.
TEST(Tool, JsonHoldsNamesThatAreNoUtf8) {
  const TempDirectory directory;
  const std::string made = directory.path("a\xff");
  const std::string packed = directory.path("b\xff");
  const auto is_shown = testing::HasSubstr("\xef\xbf\xbd");  // U+FFFD
  EXPECT_THAT(tool_json({"synth", made, "--preset", "tiny"})["path"], is_shown);
  EXPECT_THAT(tool_json({"inspect", made})["layers"][0]["shards"][0]["file"], is_shown);
  EXPECT_THAT(tool_json({"pack", made, "-o", packed, "--format", "fp8"})["path"], is_shown);
}

TEST(Inspect, ShowsGeometryShardsAndConstants) {
  const nlohmann::json json = tool_json({"inspect", kTiny});
  EXPECT_EQ(json["family"], "qwen4_exp");
  ASSERT_EQ(json["layers"].size(), 2U);
  const nlohmann::json& layer = json["layers"][1];
  EXPECT_EQ(layer["layer"], 2);
  EXPECT_EQ(layer["columns"], 16);
  EXPECT_EQ(layer["rows"], 4 * 8768);
  EXPECT_EQ(layer["multipliers"].size(), 3U);
  EXPECT_EQ(layer["column_sizes"].size(), 16U);
  std::uint64_t next_row = 0;
  for (const nlohmann::json& shard : layer["shards"]) {
    EXPECT_EQ(shard["row_begin"], next_row);
    next_row += shard["rows"].get<std::uint64_t>();
  }
  EXPECT_EQ(next_row, layer["rows"]);
}

TEST(Inspect, SaysWhatACacheHolds) {
  const nlohmann::json json = tool_json({"inspect", kTiny, "--cache-bytes", "64KiB"});
  ASSERT_EQ(json["caches"].size(), 1U);
  EXPECT_EQ(json["caches"][0]["rows"], 65536 / 8);
}

TEST(Inspect, TextNamesEveryLayer) {
  const ToolResult result = run_tool({"inspect", kTiny});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.out, HasSubstr("layer 0"));
  EXPECT_THAT(result.out, HasSubstr("layer 2"));
}

// The first geometry of ids.json as a bare config.
std::string write_config(const TempDirectory& directory, const nlohmann::json& geometry) {
  const int layer = geometry["ple_layer_index"];
  std::vector<int> ids;
  for (int i = 0; i <= layer; ++i) ids.push_back(i + 1);
  const int heads =
      (geometry["ngram_size"].get<int>() - 1) * geometry["heads_per_ngram"].get<int>();
  nlohmann::json config = {{"model_type", "qwen4_exp_text"}, {"hidden_size", heads * 4},
                           {"num_hidden_layers", 6},         {"hc_count", 4},
                           {"ple_layer_ids", ids},           {"ple_embed_dim", heads * 4},
                           {"split_ngram_parts", 4},         {"rms_norm_eps", 1e-6},
                           {"ple_conv_kernel_size", 4}};
  for (const char* key : {"vocab_size", "ngram_size", "heads_per_ngram", "ngram_vocab_size_base",
                          "eos_token_id", "seed"}) {
    config[key] = geometry[key];
  }
  return directory.write("config.json", config.dump());
}

TEST(Ids, OfABareConfigAreThoseOfTheReference) {
  const TempDirectory directory;
  for (const nlohmann::json& geometry : json_file("golden/qwen4_exp/ids.json")) {
    const std::string config = write_config(directory, geometry);
    const std::string layer = std::to_string(geometry["ple_layer_index"].get<int>());
    for (const nlohmann::json& sequence : geometry["sequences"]) {
      const std::string tokens = write_tokens(directory, "t.u32", sequence["tokens"]);
      const ToolResult result = run_tool({"ids", config, "--layer", layer, "--tokens", tokens});
      ASSERT_EQ(result.status, 0) << result.err;
      EXPECT_EQ(result.json()["ids"], sequence["ids"]);
    }
  }
}

// More tokens than are hashed at once: the blocks meet without a seam, and both forms agree.
TEST(Ids, RawOutputEqualsTheJson) {
  const TempDirectory directory;
  const std::vector<std::uint32_t> text = made_up_text(40'000, 512);
  const std::string tokens = write_tokens(directory, "t.u32", text);
  const ToolResult whole = run_tool({"ids", kTiny, "--layer", "2", "--tokens", tokens});
  const std::string raw = directory.path("rows.u32");
  ASSERT_EQ(run_tool({"ids", kTiny, "--layer", "2", "--tokens", tokens, "--out", raw}).status, 0);
  std::vector<std::uint32_t> rows(text.size() * 16);
  const std::string bytes = text_of(raw);
  ASSERT_EQ(bytes.size(), rows.size() * 4);
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  const nlohmann::json ids = whole.json()["ids"];
  for (std::size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(ids[i / 16][i % 16], rows[i]);

  // A piece from the middle, with the two tokens before it, hashes the same.
  const std::vector<std::uint32_t> piece(text.begin() + 16'382, text.begin() + 16'390);
  const std::string piece_file = write_tokens(directory, "p.u32", piece);
  const nlohmann::json piece_ids =
      run_tool({"ids", kTiny, "--layer", "2", "--tokens", piece_file}).json()["ids"];
  for (std::size_t i = 2; i < piece.size(); ++i) EXPECT_EQ(piece_ids[i], ids[16'382 + i]);
}

TEST(Verify, HoldsForAGoodCheckpoint) {
  const nlohmann::json json = tool_json({"verify", kTiny});
  EXPECT_EQ(json["ok"], true);
  EXPECT_EQ(json["rows_checked"], 4 * (8256 + 8768));
  EXPECT_EQ(json["rows_not_finite"], 0);
  EXPECT_GT(json["sample_rows"], 0);
  EXPECT_EQ(json["sample_mismatches"], 0);
}

void overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(offset));
  file << bytes;
}

TEST(Verify, FindsTheRowThatIsNotFinite) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  tool_json({"synth", checkpoint, "--preset", "tiny"});
  const nlohmann::json shard = tool_json({"inspect", checkpoint})["layers"][1]["shards"][2];
  overwrite(shard["file"], shard["offset"].get<std::uint64_t>() + 8 * 5 + 2, "\x80\x7f");
  const ToolResult result = run_tool({"verify", checkpoint, "--json"});
  EXPECT_EQ(result.status, 1);
  const nlohmann::json json = result.json();
  EXPECT_EQ(json["ok"], false);
  EXPECT_EQ(json["rows_not_finite"], 1);
  EXPECT_EQ(json["first_bad"]["layer"], 2);
  EXPECT_EQ(json["first_bad"]["row"], shard["row_begin"].get<std::uint64_t>() + 5);
}

TEST(Verify, WithChecksumsNoByteChangesUnnoticed) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  tool_json({"synth", checkpoint, "--preset", "tiny"});
  const nlohmann::json shard = tool_json({"inspect", checkpoint})["layers"][1]["shards"][2];
  EXPECT_EQ(tool_json({"verify", checkpoint})["sums_checked"], false);
  EXPECT_EQ(tool_json({"verify", checkpoint, "--write-sums"})["sums_checked"], true);
  // A number as good as any other.
  const std::string file = shard["file"];
  overwrite(file, shard["offset"].get<std::uint64_t>() + 8 * 5, std::string(2, '\0'));
  expect_refused({"verify", checkpoint}, {file, "checksum"});
  const std::string tokens = write_tokens(directory, "t.u32", made_up_text(2000, 512));
  expect_refused({"run", checkpoint, "--layer", "2", "--tokens", tokens, "--cache-bytes", "0"},
                 {file, "checksum"});
}

}  // namespace
}  // namespace ple::test
