#pragma once

#include <fmt/core.h>

#include <functional>
#include <stdexcept>
#include <utility>

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

// What runs when a command is chosen: gives the exit status; may throw InputError and
// pleiades::Error.
using Action = std::function<int()>;

class Options;

// Each declares the options of its command; one file each.
Action make_synth(Options& options);
Action make_inspect(Options& options);
Action make_ids(Options& options);
Action make_run(Options& options);
Action make_compare(Options& options);
Action make_verify(Options& options);
Action make_pack(Options& options);
Action make_bench_layer(Options& options);
Action make_bench_io(Options& options);
Action make_bench_cache(Options& options);

}  // namespace pleiades::cli
