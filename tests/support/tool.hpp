#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "support/temp_directory.hpp"

namespace ple::test {

// What a run of the command line tool gave. status is the exit status, or minus the signal.
struct ToolResult {
  int status = 0;
  std::string out;
  std::string err;

  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline std::string text_of(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// PLE_TOOL is where the tool lies from the test's own directory: both may be carried elsewhere.
inline std::string tool_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / PLE_TOOL;
}

// A run of the tool that has been started.
class ToolProcess {
 public:
  explicit ToolProcess(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {tool_path()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, scratch_.path("out").c_str(),
                                     O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, scratch_.path("err").c_str(),
                                     O_WRONLY | O_CREAT, 0600);
    const int failure = ::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure != 0) throw std::runtime_error("cannot run " + words[0]);
  }
  ~ToolProcess() {
    if (pid_ > 0) wait();
  }
  ToolProcess(const ToolProcess&) = delete;
  ToolProcess& operator=(const ToolProcess&) = delete;

  pid_t pid() const { return pid_; }

  ToolResult wait() {
    int state = 0;
    if (::waitpid(pid_, &state, 0) != pid_) throw std::runtime_error("waitpid failed");
    pid_ = 0;
    const int status = WIFEXITED(state) ? WEXITSTATUS(state) : -WTERMSIG(state);
    return {status, text_of(scratch_.path("out")), text_of(scratch_.path("err"))};
  }

 private:
  TempDirectory scratch_;
  pid_t pid_ = 0;
};

inline ToolResult run_tool(const std::vector<std::string>& arguments) {
  return ToolProcess(arguments).wait();
}

// The JSON of a run that must succeed.
inline nlohmann::json tool_json(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const ToolResult result = run_tool(arguments);
  if (result.status != 0) throw std::runtime_error("the tool failed: " + result.err);
  return result.json();
}

// Expects exit status 2, nothing on standard output, and one sentence that has each of the words.
inline void expect_refused(const std::vector<std::string>& arguments,
                           const std::vector<std::string>& words) {
  const ToolResult result = run_tool(arguments);
  SCOPED_TRACE(testing::PrintToString(arguments));
  EXPECT_EQ(result.status, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, testing::MatchesRegex("pleiades: [^\n]+\n"));
  for (const std::string& word : words) EXPECT_THAT(result.err, testing::HasSubstr(word));
}

// A file of little-endian u32 token ids.
inline std::string write_tokens(const TempDirectory& directory, const std::string& name,
                                const std::vector<std::uint32_t>& tokens) {
  return directory.write(
      name, {reinterpret_cast<const char*>(tokens.data()), tokens.size() * sizeof tokens[0]});
}

// count tokens below vocab_size that repeat now and then, as text does.
inline std::vector<std::uint32_t> made_up_text(std::uint32_t count, std::uint32_t vocab_size) {
  std::vector<std::uint32_t> tokens(count);
  std::uint32_t state = 1;
  for (std::uint32_t i = 0; i < count; ++i) {
    state = state * 1664525 + 1013904223;
    tokens[i] = i > 20 && state % 3 == 0 ? tokens[i - 17] : (state >> 8) % vocab_size;
  }
  return tokens;
}

}  // namespace ple::test
