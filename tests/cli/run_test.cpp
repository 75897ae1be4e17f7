#include <filesystem>

#include "gmock/gmock.h"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

using testing::HasSubstr;

// A tiny checkpoint and a text, made once.
class Run : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<TempDirectory>();
    for (const char* dtype : {"bf16", "fp8"}) {
      tool_json(
          {"synth", directory_->path(dtype), "--preset", "tiny", "--dtype", dtype, "--files", "3"});
    }
    write_tokens(*directory_, "text.u32", made_up_text(300, 512));
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static nlohmann::json run(const std::string& dtype, const std::vector<std::string>& options,
                            const std::string& layer = "2") {
    std::vector<std::string> arguments = {
        "run", directory_->path(dtype), "--tokens", directory_->path("text.u32"), "--layer", layer};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return tool_json(arguments);
  }

  static std::unique_ptr<TempDirectory> directory_;
};

std::unique_ptr<TempDirectory> Run::directory_;

TEST_F(Run, DigestIsTheSameForEveryWayToRun) {
  const std::vector<std::vector<std::string>> ways = {
      {"--chunk", "1"},
      {"--chunk", "7", "--cache-bytes", "0"},
      {"--chunk", "64", "--cache-bytes", "4096", "--arena", "cached"},
      {"--decode", "100", "--chunk", "150"},
      {"--decode", "300"},
      {"--sequences", "3", "--chunk", "33"},
      {"--threads", "1", "--chunk", "299"},
      {"--no-lookahead", "--chunk", "10", "--cache-bytes", "1KiB"},
      {"--io", "pread", "--cache-bytes", "0"},
  };
  for (const char* dtype : {"bf16", "fp8"}) {
    const std::string resident = run(dtype, {"--arena", "resident"})["output_digest"];
    EXPECT_EQ(resident.size(), 32U);
    for (const std::vector<std::string>& way : ways) {
      EXPECT_EQ(run(dtype, way)["output_digest"], resident) << testing::PrintToString(way);
    }
  }
}

TEST_F(Run, BenchIoStagesAColdChunkOfTokens) {
  const nlohmann::json json =
      tool_json({"bench", "io", directory_->path("bf16"), "--layer", "2", "--seconds", "0.01",
                 "--tokens", directory_->path("text.u32")});
  const nlohmann::json& cold = json["cold_chunk"];
  EXPECT_GT(cold["rows"], 0);
  EXPECT_LE(cold["rows"], 300 * 16);
  EXPECT_GT(cold["reads"], 0);
  EXPECT_LE(cold["reads"], cold["rows"]);
  EXPECT_GT(cold["blocks_per_s"], 0);
}

TEST_F(Run, WarmStartReadsTheHotRowsBack) {
  const std::string file = directory_->path("hot_rows");
  const std::vector<std::string> options = {"--arena", "cached",       "--cache-bytes",
                                            "64KiB",   "--warm-start", file};
  const nlohmann::json cold = run("bf16", options);
  EXPECT_EQ(cold["rows_prefetched"], 0);
  const nlohmann::json warm = run("bf16", options);
  EXPECT_GT(warm["rows_prefetched"], 0);
  EXPECT_LT(warm["rows_missed"], cold["rows_missed"]);
  EXPECT_EQ(warm["output_digest"], cold["output_digest"]);
  // Of another model, or damaged: the start is cold, and right.
  EXPECT_EQ(run("fp8", options)["rows_prefetched"], 0);
  run("bf16", options);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  const nlohmann::json damaged = run("bf16", options);
  EXPECT_EQ(damaged["rows_prefetched"], 0);
  EXPECT_EQ(damaged["output_digest"], cold["output_digest"]);
}

TEST_F(Run, WarmStartReplacesNothingThatIsNoWarmStart) {
  const std::string file = directory_->path("text.u32");
  const std::string text = text_of(file);
  for (const std::string& path : {file, directory_->path("bf16")}) {
    const ToolResult result = run_tool({"run", directory_->path("bf16"), "--tokens", file,
                                        "--layer", "2", "--arena", "cached", "--warm-start", path});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, testing::HasSubstr("warning"));
    EXPECT_THAT(result.err, testing::HasSubstr(path));
  }
  EXPECT_EQ(text_of(file), text);
}

TEST_F(Run, DigestTellsOutputsApart) {
  const std::string digest = run("bf16", {})["output_digest"];
  EXPECT_NE(run("fp8", {})["output_digest"], digest);
  EXPECT_NE(run("bf16", {}, "0")["output_digest"], digest);
  EXPECT_NE(run("bf16", {"--arithmetic", "mixed"})["output_digest"], digest);
  EXPECT_NE(run("bf16", {"--element", "bf16"})["output_digest"], digest);
}

TEST_F(Run, CountsWhatItDid) {
  const nlohmann::json json =
      run("bf16", {"--cache-bytes", "0", "--sequences", "2", "--decode", "20", "--chunk", "100"});
  EXPECT_EQ(json["tokens"], 600);
  EXPECT_EQ(json["prefill"]["tokens"], 560);
  EXPECT_EQ(json["decode"]["tokens"], 40);
  EXPECT_EQ(json["rows_asked"], 600 * 16);
  EXPECT_EQ(json["rows_hit"].get<int>() + json["rows_missed"].get<int>(), json["rows_distinct"]);
  EXPECT_GT(json["rows_missed"], 0);
  EXPECT_GT(json["disk_reads"], 0);
  EXPECT_GT(json["disk_bytes"], 0);
  std::uint64_t read_count = 0;
  for (const nlohmann::json& bucket : json["read_times_us"])
    read_count += bucket[1].get<std::uint64_t>();
  EXPECT_EQ(read_count, json["disk_reads"]);
  EXPECT_GT(json["tokens_per_s"], 0);
  EXPECT_GT(json["peak_rss_bytes"], 1 << 20);
  for (const char* quantiles : {"read_us", "stage_us", "run_us"}) {
    EXPECT_LE(json[quantiles]["p50"], json[quantiles]["p99"]) << quantiles;
    EXPECT_GT(json[quantiles]["p99"], 0) << quantiles;
  }
}

TEST_F(Run, StepsAreThereWhenAskedFor) {
  EXPECT_FALSE(run("bf16", {}).contains("steps"));
  const nlohmann::json steps = run("bf16", {"--steps", "--chunk", "128", "--decode", "2"})["steps"];
  ASSERT_EQ(steps.size(), 5U);  // 128, 128, 42, 1, 1
  EXPECT_EQ(steps[2]["position"], 256);
  EXPECT_EQ(steps[2]["tokens"], 42);
  EXPECT_EQ(steps[2]["phase"], "prefill");
  EXPECT_EQ(steps[4]["phase"], "decode");
}

TEST_F(Run, MetricsFileIsAPrometheusPage) {
  const std::string page = directory_->path("metrics");
  run("bf16", {"--metrics", page});
  EXPECT_THAT(text_of(page), HasSubstr("# TYPE "));
}

TEST_F(Run, SummaryIsForPeople) {
  const ToolResult result =
      run_tool({"run", directory_->path("bf16"), "--tokens", directory_->path("text.u32"),
                "--layer", "0", "--cache-bytes", "0"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.err, "");
  for (const char* word : {"tokens/s", "distinct", "reads", "digest"}) {
    EXPECT_THAT(result.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace ple::test
