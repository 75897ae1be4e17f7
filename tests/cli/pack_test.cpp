#include <sys/resource.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "base/number_formats.hpp"
#include "gmock/gmock.h"
#include "pleiades/pleiades.hpp"
#include "support/child_process.hpp"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

std::string golden(const std::string& name) { return PLE_TEST_DATA "/golden/" + name; }

std::vector<std::string> pack_words(const std::string& from, const std::string& to,
                                    const std::vector<std::string>& options) {
  std::vector<std::string> words = {"pack", from, "-o", to, "--format"};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

nlohmann::json pack(const std::string& from, const std::string& to,
                    const std::vector<std::string>& options) {
  return tool_json(pack_words(from, to, options));
}

// The files of a directory and their bytes.
std::map<std::string, std::string> contents(const std::string& directory) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(directory)) {
    files[entry.path().filename()] = text_of(entry.path());
  }
  return files;
}

double worst_error(const nlohmann::json& report) {
  double worst = 0;
  for (const auto& head : report["heads"])
    worst = std::max(worst, head["worst_error"].get<double>());
  return worst;
}

// ||a - b|| / ||b|| of a layer of the tiny model against the public reference.
double distance(const std::string& checkpoint) {
  const ToolResult result =
      run_tool({"compare", checkpoint, golden("qwen4_exp/tiny_io.safetensors"), "--layer", "0",
                "--tolerance", "1", "--json"});
  return result.json()["rel"];
}

// Largest errors of a row, relative to the row, and of the tiny model's output. A row of b values
// errs by at most half a step of each.
struct Bound {
  std::vector<std::string> options;
  double row;
  double output;
};
const Bound kBounds[] = {{{"bf16"}, 0, 1e-6},
                         {{"fp8"}, 1.0 / 16, 0.05},
                         {{"fp8", "--interleave"}, 1.0 / 16, 0.05},
                         {{"int8"}, 0.02, 0.01},
                         {{"int8", "--interleave"}, 0.02, 0.01},
                         {{"nvfp4"}, 0.2, 0.15},
                         {{"nvfp4", "--interleave"}, 0.2, 0.15}};

// A checkpoint of wide rows, which nvfp4 can have.
std::string wide_rows(const TempDirectory& directory) {
  const std::string checkpoint = directory.path("wide");
  tool_json({"synth", checkpoint, "--preset", "flash-next", "--rows-base", "300", "--shards", "5",
             "--files", "2"});
  return checkpoint;
}

TEST(Pack, EveryFormatOpensAndErrsWithinItsBound) {
  const TempDirectory directory;
  const std::string checkpoint = wide_rows(directory);
  for (const Bound& bound : kBounds) {
    if (bound.options[0] == "bf16") continue;  // it has that already
    SCOPED_TRACE(testing::PrintToString(bound.options));
    const std::string packed = directory.path("packed");
    const nlohmann::json report = pack(checkpoint, packed, bound.options);
    EXPECT_LE(worst_error(report), bound.row);
    EXPECT_GT(worst_error(report), 0);
    EXPECT_EQ(report["heads"].size(), 16U);
    EXPECT_EQ(report["rows"], tool_json({"inspect", packed})["layers"][0]["rows"]);
    EXPECT_EQ(tool_json({"verify", packed})["rows_not_finite"], 0);
    fs::remove_all(packed);
  }
}

TEST(Pack, TheTinyModelsOutputStaysWithinTheFormatsBound) {
  const TempDirectory directory;
  for (const Bound& bound : kBounds) {
    if (bound.options[0] == "nvfp4" || bound.options[0] == "bf16") continue;
    SCOPED_TRACE(testing::PrintToString(bound.options));
    const std::string packed = directory.path("packed");
    pack(golden("qwen4_exp/tiny"), packed, bound.options);
    EXPECT_LE(distance(packed), bound.output);
    EXPECT_GT(distance(packed), 1e-5);
    fs::remove_all(packed);
  }
}

TEST(Pack, EveryFamilyIsPackedAndBackWithoutAnotherChange) {
  const TempDirectory directory;
  for (const char* name : {"qwen4_exp/tiny", "engram_demo/tiny_hc2", "engram_v41/tiny_hc4",
                           "longcat/tiny_next", "gemma/tiny_gemma3n"}) {
    SCOPED_TRACE(name);
    const bool is_fp8 = std::string(name).starts_with("engram_v41");
    const std::vector<std::string> first = is_fp8
                                               ? std::vector<std::string>{"bf16"}
                                               : std::vector<std::string>{"int8", "--interleave"};
    const std::string once = directory.path("once");
    const nlohmann::json report = pack(golden(name), once, first);
    EXPECT_LE(worst_error(report), is_fp8 ? 0 : 0.02);
    // Codes that are there already are only moved, and decoding them loses nothing.
    const std::string moved = directory.path("moved");
    const std::string back = directory.path("back");
    EXPECT_EQ(worst_error(pack(
                  once, moved,
                  is_fp8 ? std::vector<std::string>{"fp8"} : std::vector<std::string>{"int8"})) > 0,
              is_fp8);
    EXPECT_EQ(worst_error(pack(moved, back, {"bf16"})), 0);
    EXPECT_EQ(tool_json({"verify", back})["rows_not_finite"], 0);
    for (const std::string& path : {once, moved, back}) fs::remove_all(path);
  }
}

TEST(Pack, InterleavingEngramRowsKeepsTheirCodesAndTheOutput) {
  const TempDirectory directory;
  const std::string packed = directory.path("packed");
  const nlohmann::json report =
      pack(golden("engram_v41/tiny_hc2"), packed, {"fp8", "--interleave"});
  EXPECT_EQ(worst_error(report), 0);
  EXPECT_EQ(tool_json({"inspect", packed})["layers"][0]["shards"].size(), 1U);
  const std::string back = directory.path("back");
  pack(packed, back, {"fp8"});
  EXPECT_EQ(tool_json({"inspect", back})["layers"][0]["shards"].size(), 2U);
  // The same tensors as in the beginning.
  EXPECT_EQ(pack(back, directory.path("again"), {"fp8", "--interleave"})["heads"], report["heads"]);
  EXPECT_EQ(contents(packed), contents(directory.path("again")));
}

TEST(Pack, TheBytesDoNotDependOnTheNumberOfThreads) {
  const TempDirectory directory;
  const std::string checkpoint = wide_rows(directory);
  const auto one = pack(checkpoint, directory.path("1"), {"nvfp4", "--threads", "1"});
  const auto three = pack(checkpoint, directory.path("3"), {"nvfp4", "--threads", "3"});
  EXPECT_EQ(one["heads"], three["heads"]);
  EXPECT_EQ(contents(directory.path("1")), contents(directory.path("3")));
}

TEST(Pack, FilesWithoutRowsAreLinkedAndTheConfigIsCopied) {
  const TempDirectory directory;
  const std::string source = directory.path("source");
  fs::copy(golden("qwen4_exp/tiny"), source);
  const std::string packed = directory.path("packed");
  pack(source, packed, {"fp8"});
  int linked = 0;
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename();
    ASSERT_TRUE(fs::exists(packed + "/" + name)) << name;
    const bool is_link = fs::equivalent(entry.path(), packed + "/" + name);
    EXPECT_TRUE(!is_link || name.ends_with(".safetensors"));
    linked += is_link ? 1 : 0;
  }
  EXPECT_GT(linked, 0);
  EXPECT_LT(linked, 7);
  EXPECT_EQ(text_of(source + "/config.json"), text_of(packed + "/config.json"));
}

TEST(Pack, ImpossibleRequestsAreRefusedAndLeaveNothing) {
  const TempDirectory directory;
  const std::string packed = directory.path("packed");
  const std::string tiny = golden("qwen4_exp/tiny");
  expect_refused(pack_words(golden("longcat/tiny_lite"), packed, {"nvfp4"}),
                 {"8 elements", "nvfp4"});
  expect_refused(pack_words(tiny, packed, {"bf16", "--interleave"}), {"layer 0", "bf16", "scales"});
  expect_refused(pack_words(tiny, packed, {"bf16"}), {tiny, "already"});
  expect_refused(pack_words(tiny, packed, {"fp4"}), {"--format", "fp4"});
  expect_refused({"pack", tiny, "-o", packed}, {"--format"});
  expect_refused(pack_words(directory.path("none"), packed, {"fp8"}), {directory.path("none")});
  EXPECT_TRUE(fs::is_empty(directory.path()));
}

TEST(Pack, NeverWritesOverAnything) {
  const TempDirectory directory;
  const std::string packed = directory.path("packed");
  fs::create_directory(packed);
  directory.write("packed/mine", "");
  expect_refused(pack_words(golden("qwen4_exp/tiny"), packed, {"fp8"}), {packed, "exists already"});
  fs::remove_all(packed);
  fs::create_directory(packed + ".partial");
  directory.write("packed.partial/mine", "");
  expect_refused(pack_words(golden("qwen4_exp/tiny"), packed, {"fp8"}), {packed + ".partial"});
  EXPECT_TRUE(fs::exists(packed + ".partial/mine"));
}

// Writes bytes into row `row` of the first shard of a checkpoint, whose file it gives back.
std::string damage(const std::string& checkpoint, std::uint64_t row, std::string_view bytes) {
  const auto layer = tool_json({"inspect", checkpoint})["layers"][0];
  const auto& shard = layer["shards"][0];
  const std::string file = shard["file"];
  std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(static_cast<std::streamoff>(shard["offset"].get<std::uint64_t>() +
                                           row * layer["row_bytes"].get<std::uint64_t>()));
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return file;
}

TEST(Pack, ARowThatIsNotFiniteIsRefusedByFileAndNumber) {
  const TempDirectory directory;
  const std::string checkpoint = wide_rows(directory);
  for (const std::string_view bits : {"\xC0\x7F", "\x80\xFF"}) {  // NaN, -infinity
    const std::string file = damage(checkpoint, 7, bits);
    for (const char* format : {"fp8", "nvfp4"}) {
      expect_refused(pack_words(checkpoint, directory.path("packed"), {format}), {file, "row 7 "});
    }
  }
  EXPECT_FALSE(fs::exists(directory.path("packed")));
  EXPECT_FALSE(fs::exists(directory.path("packed.partial")));
}

TEST(Pack, DamageThatChecksumsShowIsNotPacked) {
  const TempDirectory directory;
  const std::string checkpoint = wide_rows(directory);
  tool_json({"verify", checkpoint, "--write-sums"});
  const std::string file = damage(checkpoint, 3, "\x01\x02");
  expect_refused(pack_words(checkpoint, directory.path("packed"), {"int8"}), {file, "checksum"});
  EXPECT_FALSE(fs::exists(directory.path("packed")));
}

TEST(Pack, NoRoomIsOneSentenceAndLeavesNothing) {
  const TempDirectory directory;
  const std::string checkpoint = wide_rows(directory);
  const std::string packed = directory.path("packed");
  EXPECT_EQ(in_child([&]() -> std::string {
              const rlimit limit = {1 << 20, 1 << 20};
              ::setrlimit(RLIMIT_FSIZE, &limit);
              const ToolResult result = run_tool(pack_words(checkpoint, packed, {"int8"}));
              if (result.status != 2) return "status " + std::to_string(result.status);
              const bool says = result.err.find(packed + ".partial/model") != std::string::npos;
              return says ? "" : result.err;
            }),
            "");
  EXPECT_FALSE(fs::exists(packed));
  EXPECT_FALSE(fs::exists(packed + ".partial"));
}

// The rows of the first layer, as bf16 values.
std::vector<float> first_table(const std::string& checkpoint) {
  std::vector<float> values;
  const auto layer = tool_json({"inspect", checkpoint})["layers"][0];
  for (const auto& shard : layer["shards"]) {
    std::ifstream stream(shard["file"].get<std::string>(), std::ios::binary);
    stream.seekg(shard["offset"].get<std::streamoff>());
    std::vector<std::uint16_t> bits(shard["rows"].get<std::size_t>() *
                                    layer["row_bytes"].get<std::size_t>() / 2);
    stream.read(reinterpret_cast<char*>(bits.data()), std::ssize(bits) * 2);
    std::transform(bits.begin(), bits.end(), std::back_inserter(values), bf16_to_f32);
  }
  return values;
}

// Every value of the packed table, read back, is off by at most `step` of the largest of its row
// and by bf16's own rounding.
void expect_rows_within(const std::string& checkpoint, const std::string& packed, float step) {
  const TempDirectory directory;
  pack(packed, directory.path("back"), {"bf16"});
  const std::vector<float> before = first_table(checkpoint);
  const std::vector<float> after = first_table(directory.path("back"));
  ASSERT_EQ(before.size(), after.size());
  constexpr std::size_t kDim = 4;
  for (std::size_t row = 0; row < before.size(); row += kDim) {
    float largest = 0;
    for (std::size_t i = row; i < row + kDim; ++i) largest = std::max(largest, std::abs(before[i]));
    for (std::size_t i = row; i < row + kDim; ++i) {
      ASSERT_LE(std::abs(before[i] - after[i]), largest * (step + 1.0F / 256))
          << "row " << row / kDim;
    }
  }
}

// Waits until the journal of a packing says that rows are done: its sixth number.
void wait_for_rows(const std::string& partial, const ToolProcess& process) {
  std::uint64_t rows_done = 0;
  while (rows_done == 0 && ::kill(process.pid(), 0) == 0) {
    std::ifstream journal(partial + "/pack.journal", std::ios::binary);
    journal.seekg(40);
    journal.read(reinterpret_cast<char*>(&rows_done), sizeof rows_done);
    std::this_thread::yield();
  }
}

TEST(Pack, GoesOnAfterBeingKilledOrInterruptedToTheSameBytes) {
  const TempDirectory directory;
  const std::string checkpoint = directory.path("large");
  tool_json({"synth", checkpoint, "--preset", "tiny", "--rows-base", "600000", "--files", "2"});
  const std::string packed = directory.path("packed");
  const std::vector<std::string> words = pack_words(checkpoint, packed, {"int8", "--json"});
  for (const int signal : {SIGKILL, SIGINT}) {
    ToolProcess process(words);
    wait_for_rows(packed + ".partial", process);
    ::kill(process.pid(), signal);
    EXPECT_EQ(process.wait().status, -signal);
    EXPECT_FALSE(fs::exists(packed));
  }
  for (const char* name : {"pack.journal", "model.safetensors.index.json"}) {
    directory.write(std::string("packed.partial/") + name + ".partial-1", "");  // a kill in a save
  }
  expect_refused(pack_words(checkpoint, packed, {"fp8"}), {packed + ".partial", "another request"});
  const nlohmann::json resumed = run_tool(words).json();
  EXPECT_GT(resumed["rows_resumed"], 0);
  EXPECT_FALSE(fs::exists(packed + ".partial"));

  const nlohmann::json whole = pack(checkpoint, directory.path("whole"), {"int8"});
  EXPECT_EQ(whole["rows_resumed"], 0);
  EXPECT_EQ(whole["heads"], resumed["heads"]);
  EXPECT_TRUE(contents(packed) == contents(directory.path("whole")));
  expect_rows_within(checkpoint, packed, 1.0F / 254);
}

// Between the directory's new name and the end of its journal. A kill there leaves what this does,
// in which the renaming fails first, because something else has come to have the name.
TEST(Pack, ARunThatWasKilledAtItsVeryEndIsFinishedByTheNext) {
  const TempDirectory directory;
  const std::string packed = directory.path("packed");
  ple_pack_options options = PLE_PACK_OPTIONS_INIT;
  options.format = PLE_PACK_INT8;
  const auto occupy = [&](std::uint64_t, std::uint64_t) {
    fs::create_directory(packed);
    directory.write("packed/in the way", "");
    return true;
  };
  EXPECT_THROW(pleiades::pack(golden("qwen4_exp/tiny"), packed, options, occupy), pleiades::Error);
  fs::remove_all(packed);
  fs::rename(packed + ".partial", packed);
  ASSERT_TRUE(fs::exists(packed + "/pack.journal"));

  expect_refused(pack_words(golden("qwen4_exp/tiny"), packed, {"fp8"}),
                 {packed, "another request"});
  const nlohmann::json resumed = pack(golden("qwen4_exp/tiny"), packed, {"int8"});
  const nlohmann::json whole = pack(golden("qwen4_exp/tiny"), directory.path("whole"), {"int8"});
  EXPECT_EQ(resumed["rows_resumed"], resumed["rows"]);
  EXPECT_EQ(resumed["heads"], whole["heads"]);
  EXPECT_TRUE(contents(packed) == contents(directory.path("whole")));
}

}  // namespace
}  // namespace ple::test
