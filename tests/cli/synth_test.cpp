#include <csignal>
#include <cstring>
#include <filesystem>
#include <thread>

#include "gmock/gmock.h"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

namespace fs = std::filesystem;

std::uint64_t word(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15 + stream * 0xD1342543DE82EF95;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// Element i of row r of the table of the tiny preset's first layer: rows of four elements take one
// word each, an element is a signed 16-bit lane times 2^-17, rounded to bf16.
std::uint16_t expected_bits(std::uint64_t seed, std::uint64_t row, std::uint64_t element) {
  const auto lane = static_cast<std::int16_t>(word(1000 * seed, row) >> (16 * element));
  const float value = static_cast<float>(lane) * 0x1p-17F;
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

nlohmann::json shards_of(const std::string& checkpoint, std::size_t layer = 0) {
  return tool_json({"inspect", checkpoint})["layers"][layer]["shards"];
}

std::uint64_t rows_in(const nlohmann::json& inspected) {
  std::uint64_t rows = 0;
  for (const nlohmann::json& layer : inspected["layers"])
    rows += layer["rows"].get<std::uint64_t>();
  return rows;
}

TEST(Synth, EveryRowFollowsFromTheSeedAndItsNumber) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  tool_json(
      {"synth", checkpoint, "--preset", "tiny", "--shards", "13", "--files", "3", "--seed", "7"});
  std::uint64_t rows = 0;
  for (const nlohmann::json& shard : shards_of(checkpoint)) {
    const std::string bytes = text_of(shard["file"]);
    for (std::uint64_t r = 0; r < shard["rows"]; ++r) {
      for (std::uint64_t i = 0; i < 4; ++i) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, bytes.data() + shard["offset"].get<std::uint64_t>() + 8 * r + 2 * i, 2);
        ASSERT_EQ(bits, expected_bits(7, shard["row_begin"].get<std::uint64_t>() + r, i));
      }
      ++rows;
    }
  }
  EXPECT_EQ(rows, tool_json({"inspect", checkpoint})["layers"][0]["rows"]);
}

TEST(Synth, ShardsAreInterleavedOverFilesAtUnalignedOffsets) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  tool_json({"synth", checkpoint, "--preset", "tiny", "--shards", "5", "--files", "2"});
  const nlohmann::json shards = shards_of(checkpoint);
  ASSERT_EQ(shards.size(), 5U);
  for (std::size_t s = 0; s < shards.size(); ++s) {
    EXPECT_NE(shards[s]["offset"].get<std::uint64_t>() % 512, 0U);
    EXPECT_EQ(shards[s]["file"] == shards[0]["file"], s % 2 == 0);
  }
}

TEST(Synth, TheBytesDoNotDependOnTheNumberOfThreads) {
  const TempDirectory directory;
  // Shards of 12.8 MB: several pieces each.
  const std::vector<std::string> options = {"--preset", "tiny", "--rows-base", "200000",
                                            "--shards", "1",    "--files",     "1",
                                            "--dtype",  "fp8"};
  for (const char* threads : {"1", "3"}) {
    std::vector<std::string> arguments = {"synth", directory.path(threads), "--threads", threads};
    arguments.insert(arguments.end(), options.begin(), options.end());
    tool_json(arguments);
  }
  EXPECT_EQ(text_of(directory.path("1/model.safetensors")),
            text_of(directory.path("3/model.safetensors")));
}

TEST(Synth, OtherFamiliesOpenAndVerify) {
  const TempDirectory directory;
  for (const char* preset : {"engram-demo", "gemma-e2b"}) {
    const std::string checkpoint = directory.path(preset);
    tool_json({"synth", checkpoint, "--preset", preset, "--rows-base", "300"});
    EXPECT_EQ(tool_json({"verify", checkpoint})["rows_not_finite"], 0);
    expect_refused({"synth", directory.path("c"), "--preset", preset, "--shards", "2"},
                   {"--shards", preset});
  }
}

TEST(Synth, EveryRowFormatOpensAndVerifies) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  for (const char* preset : {"flash-next", "engram-demo"}) {
    for (const char* dtype : {"f16", "f32", "fp8-row", "fp8-e8m0", "int8", "nvfp4"}) {
      SCOPED_TRACE(std::string(preset) + " " + dtype);
      tool_json({"synth", checkpoint, "--preset", preset, "--rows-base", "50", "--dtype", dtype});
      const nlohmann::json verified = tool_json({"verify", checkpoint});
      EXPECT_EQ(verified["rows_not_finite"], 0);
      EXPECT_EQ(verified["rows_checked"], rows_in(tool_json({"inspect", checkpoint})));
      fs::remove_all(checkpoint);
    }
  }
  expect_refused({"synth", checkpoint, "--preset", "tiny", "--dtype", "nvfp4"}, {"--dtype", "16"});
}

TEST(Synth, RefusesToWriteOverAnything) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("c");
  tool_json({"synth", checkpoint, "--preset", "tiny"});
  expect_refused({"synth", checkpoint, "--preset", "tiny"}, {checkpoint, "exists"});
  const std::string file = directory.write("file", "");
  expect_refused({"synth", file, "--preset", "tiny"}, {file, "exists"});
}

TEST(Synth, SaysHowMuchRoomIsMissing) {
  const TempDirectory directory;
  expect_refused({"synth", directory.path("c"), "--rows-base", "200000000", "--json"},
                 {directory.path("c"), "1.0 TB", "free"});
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

// Starts a synth of 2.6 GB and returns once it has begun to write tensors.
std::string wait_for_partial(const TempDirectory& directory, const ToolProcess& process) {
  const std::string partial = directory.path("c.partial-" + std::to_string(process.pid()));
  const std::string file = partial + "/model.safetensors";
  while (!fs::exists(file) && ::kill(process.pid(), 0) == 0) std::this_thread::yield();
  return partial;
}

const std::vector<std::string>& large() {
  static const std::vector<std::string> options = {"--rows-base", "500000", "--files", "1"};
  return options;
}

std::vector<std::string> synth_large(const TempDirectory& directory) {
  std::vector<std::string> arguments = {"synth", directory.path("c")};
  arguments.insert(arguments.end(), large().begin(), large().end());
  return arguments;
}

TEST(Synth, KilledLeavesNothingThatOpens) {
  const TempDirectory directory;
  ToolProcess process(synth_large(directory));
  const std::string partial = wait_for_partial(directory, process);
  ::kill(process.pid(), SIGKILL);
  ASSERT_EQ(process.wait().status, -SIGKILL);
  EXPECT_FALSE(fs::exists(directory.path("c")));
  ASSERT_TRUE(fs::exists(partial));
  expect_refused({"inspect", partial}, {partial});
}

TEST(Synth, InterruptedRemovesWhatItWrote) {
  const TempDirectory directory;
  ToolProcess process(synth_large(directory));
  wait_for_partial(directory, process);
  ::kill(process.pid(), SIGINT);
  EXPECT_EQ(process.wait().status, -SIGINT);
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

}  // namespace
}  // namespace ple::test
