#pragma once

#include <fmt/core.h>

#include <functional>
#include <stdexcept>
#include <utility>

namespace CLI {
class App;
}

namespace pleiades::cli {

// Exit status of the tool.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;    // a comparison or a verification says no
inline constexpr int kBadInput = 2;  // an option, a file or the system; one sentence on stderr

// Ends the command with kBadInput. The sentence names the file or option and the numbers.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw InputError(fmt::format(format, std::forward<Args>(args)...));
}

// One subcommand: what it parses, and what runs when it is chosen. run gives the exit status and
// may throw InputError and pleiades::Error.
struct Command {
  CLI::App* app;
  std::function<int()> run;
};

// Each adds its subcommand to the application; one file each.
Command add_synth(CLI::App& application);
Command add_inspect(CLI::App& application);
Command add_ids(CLI::App& application);
Command add_run(CLI::App& application);
Command add_compare(CLI::App& application);
Command add_verify(CLI::App& application);
Command add_bench_layer(CLI::App& bench);
Command add_bench_io(CLI::App& bench);
Command add_bench_cache(CLI::App& bench);

}  // namespace pleiades::cli
