#pragma once

#include <fmt/format.h>

#include <utility>

#include "base/status.hpp"

namespace ple {

// error(StatusCode::corrupt, "file '{}': ...", path): a Status with its sentence formatted.
template <class... Args>
Status error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  return Status(code, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ple
