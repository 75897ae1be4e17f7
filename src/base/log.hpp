#pragma once

#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/error.hpp"

namespace ple {

// The values of ple_log_level.
enum class LogLevel : int { debug = 0, info = 1, warning = 2 };

// Where the library's log lines go: a function of the user's, or nowhere. Copyable; the function is
// called from any thread.
class LogSink {
 public:
  using Write = void (*)(void* user, LogLevel level, const char* line);

  LogSink() = default;
  LogSink(Write write, void* user) : write_(write), user_(user) {}

  // Formats only when somebody listens, and where there is memory for it.
  template <class... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (write_ == nullptr) return;
    static_cast<void>(or_out_of_memory([&]() -> Status {
      write_(user_, level, fmt::format(format, std::forward<Args>(args)...).c_str());
      return {};
    }));
  }

 private:
  Write write_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace ple
