// Bad options and bad files: exit status 2 and one sentence, for every command.

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "support/temp_directory.hpp"
#include "support/tool.hpp"

namespace ple::test {
namespace {

namespace fs = std::filesystem;

const std::string kTiny = std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny";

class Refusals : public testing::Test {
 protected:
  TempDirectory directory_;
  std::string tokens_ = write_tokens(directory_, "text.u32", {1, 2, 3});

  std::vector<std::string> run(const std::vector<std::string>& options) const {
    std::vector<std::string> arguments = {"run", kTiny, "--tokens", tokens_, "--layer", "0"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return arguments;
  }
};

TEST_F(Refusals, OfTheCommandLine) {
  expect_refused({}, {"no command"});
  expect_refused({"frobnicate"}, {"frobnicate"});
  expect_refused({"bench"}, {"no command"});
  expect_refused({"inspect"}, {"DIR"});
  expect_refused({"inspect", kTiny, "--frobnicate"}, {"--frobnicate"});
  expect_refused({"run", kTiny, "--layer", "0"}, {"--tokens"});
  expect_refused({"run", kTiny, "--tokens"}, {"--tokens"});
}

TEST_F(Refusals, OfOptionValues) {
  expect_refused(run({"--chunk", "0"}), {"--chunk", "0"});
  expect_refused(run({"--chunk", "many"}), {"--chunk", "many"});
  expect_refused(run({"--threads", "0"}), {"--threads"});
  expect_refused(run({"--sequences", "0"}), {"--sequences"});
  expect_refused(run({"--decode", "4"}), {"--decode 4", tokens_, "3 tokens"});
  expect_refused(run({"--cache-bytes", "-1"}), {"--cache-bytes", "-1"});
  expect_refused(run({"--cache-bytes", "12parsecs"}), {"--cache-bytes", "12parsecs"});
  expect_refused(run({"--cache-bytes", "99999999999T"}), {"--cache-bytes", "99999999999T"});
  expect_refused(run({"--io", "magic"}), {"--io", "magic", "uring"});
  expect_refused(run({"--arena", "magic"}), {"--arena", "magic", "resident"});
  expect_refused(run({"--arithmetic", "magic"}), {"--arithmetic", "magic", "reference"});
  expect_refused(run({"--device", "magic"}), {"magic"});
  expect_refused({"synth", directory_.path("c"), "--preset", "magic"}, {"--preset", "magic"});
  expect_refused({"synth", directory_.path("c"), "--dtype", "magic"}, {"--dtype", "magic"});
  expect_refused({"synth", directory_.path("c"), "--preset", "tiny", "--files", "20"},
                 {"--files 20", "8"});
  expect_refused({"bench", "layer", "--tokens", "0"}, {"--tokens", "0"});
  expect_refused({"bench", "layer", "--model", kTiny}, {kTiny, "--layer", "0, 2"});
}

// As a shell passes an unset variable in quotes on.
TEST_F(Refusals, OfEmptyNames) {
  expect_refused({"inspect", ""}, {"DIR is empty"});
  expect_refused({"verify", ""}, {"DIR is empty"});
  expect_refused({"ids", "", "--layer", "0", "--tokens", tokens_}, {"DIR is empty"});
  expect_refused({"run", "", "--layer", "0", "--tokens", tokens_}, {"DIR is empty"});
  expect_refused({"compare", "", tokens_, "--layer", "0"}, {"DIR is empty"});
  expect_refused({"compare", kTiny, "", "--layer", "0"}, {"CASE is empty"});
  expect_refused({"pack", "", "-o", directory_.path("c"), "--format", "fp8"}, {"DIR is empty"});
  expect_refused({"pack", kTiny, "-o", "", "--format", "fp8"}, {"--out is empty"});
  expect_refused({"synth", "", "--preset", "tiny"}, {"DIR is empty"});
  expect_refused({"bench", "layer", "--model", ""}, {"--model is empty"});
  expect_refused(run({"--metrics", ""}), {"--metrics is empty"});
  expect_refused(run({"--warm-start", ""}), {"--warm-start is empty"});
}

TEST_F(Refusals, OfALayerThatIsNotThere) {
  expect_refused({"run", kTiny, "--tokens", tokens_}, {kTiny, "--layer", "0, 2"});
  expect_refused({"run", kTiny, "--tokens", tokens_, "--layer", "1"}, {kTiny, "layer 1", "0, 2"});
  expect_refused({"ids", kTiny, "--tokens", tokens_, "--layer", "-1"}, {"--layer", "-1"});
}

TEST_F(Refusals, OfTokenFiles) {
  const auto run_on = [&](const std::string& file) {
    return std::vector<std::string>{"run", kTiny, "--layer", "0", "--tokens", file};
  };
  const std::string absent = directory_.path("absent.u32");
  expect_refused(run_on(absent), {absent, "No such file"});
  expect_refused(run_on(directory_.path()), {directory_.path()});
  const std::string empty = directory_.write("empty.u32", "");
  expect_refused(run_on(empty), {empty, "no tokens"});
  const std::string odd = directory_.write("odd.u32", "12345");
  expect_refused(run_on(odd), {odd, "5 bytes"});
  const std::string beyond = write_tokens(directory_, "beyond.u32", {1, 511, 512});
  expect_refused(run_on(beyond), {beyond, "token 2 is 512", "[0, 512)"});
}

// A queue is not waited for as an input, and not replaced by a file as an output.
TEST_F(Refusals, OfWhatIsNoFile) {
  const std::string queue = directory_.path("queue");
  ASSERT_EQ(::mkfifo(queue.c_str(), 0600), 0);
  const std::vector<std::string> words = {queue, "not a regular file"};
  expect_refused({"run", kTiny, "--layer", "0", "--tokens", queue}, words);
  expect_refused({"compare", kTiny, queue, "--layer", "0"}, words);
  expect_refused({"ids", kTiny, "--layer", "0", "--tokens", tokens_, "--out", queue}, words);
  expect_refused(run({"--metrics", queue}), words);
  EXPECT_TRUE(fs::is_fifo(queue));
}

TEST_F(Refusals, OfOutputsThatCannotBeWritten) {
  const std::string nowhere = directory_.path("absent/file");
  expect_refused(run({"--metrics", nowhere}), {nowhere});
  expect_refused({"ids", kTiny, "--layer", "0", "--tokens", tokens_, "--out", nowhere}, {nowhere});
  expect_refused({"synth", tokens_ + "/c", "--preset", "tiny"}, {tokens_ + "/c"});
}

// Each spoils one file of a good checkpoint, which every command then refuses by its name.
class SpoiltCheckpoints : public Refusals {
 protected:
  SpoiltCheckpoints() {
    tool_json({"synth", checkpoint_, "--preset", "tiny", "--files", "2"});
    first_ = checkpoint_ + "/model-00001-of-00002.safetensors";
  }

  void expect_all_refuse(const std::vector<std::string>& words) const {
    expect_refused({"inspect", checkpoint_}, words);
    expect_refused({"verify", checkpoint_}, words);
    expect_refused({"run", checkpoint_, "--layer", "0", "--tokens", tokens_}, words);
    expect_refused(
        {"compare", checkpoint_,
         std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny_io.safetensors", "--layer", "0"},
        words);
    expect_refused({"bench", "io", checkpoint_, "--layer", "0"}, words);
  }

  std::string checkpoint_ = directory_.path("c");
  std::string first_;
};

TEST_F(SpoiltCheckpoints, WithoutADirectory) {
  fs::remove_all(checkpoint_);
  expect_all_refuse({"'" + checkpoint_ + "': No such file or directory"});
}

TEST_F(SpoiltCheckpoints, WithoutAConfig) {
  fs::remove(checkpoint_ + "/config.json");
  expect_all_refuse({checkpoint_, "config.json"});
}

TEST_F(SpoiltCheckpoints, WithAConfigThatIsNotJson) {
  directory_.write("c/config.json", "{");
  expect_all_refuse({checkpoint_ + "/config.json", "line 1, column 2", "expected string literal"});
}

TEST_F(SpoiltCheckpoints, WithATruncatedFile) {
  fs::resize_file(first_, fs::file_size(first_) - 1);
  expect_all_refuse({first_});
}

TEST_F(SpoiltCheckpoints, WithoutAShardFile) {
  fs::remove(first_);
  expect_all_refuse({"model-00001-of-00002.safetensors"});
}

TEST_F(SpoiltCheckpoints, WithAnotherSeed) {
  nlohmann::json config = nlohmann::json::parse(text_of(checkpoint_ + "/config.json"));
  config["seed"] = 0;
  directory_.write("c/config.json", config.dump());
  expect_all_refuse({"layer_multipliers"});
}

TEST_F(SpoiltCheckpoints, OfABareConfigHaveNoTables) {
  const std::string config = directory_.write("config.json", text_of(checkpoint_ + "/config.json"));
  const std::vector<std::string> run_arguments = {"run", config,     "--layer",
                                                  "0",   "--tokens", tokens_};
  expect_refused(run_arguments, {config, "tables"});
  expect_refused({"verify", config}, {config, "tables"});
  expect_refused({"bench", "io", config, "--layer", "0"}, {config, "tables"});
}

}  // namespace
}  // namespace ple::test
