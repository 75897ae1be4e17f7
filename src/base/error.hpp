#pragma once

#include <fmt/format.h>

#include <new>
#include <utility>

#include "base/status.hpp"

namespace ple {

// error(StatusCode::corrupt, "file '{}': ...", path): a Status with its sentence formatted, or
// without one where there is no memory for it.
template <class... Args>
Status error(StatusCode code, fmt::format_string<Args...> format, Args&&... args) noexcept {
  try {
    return Status(code, fmt::format(format, std::forward<Args>(args)...));
  } catch (const std::bad_alloc&) {
    return Status(code);
  }
}

// What body returns, a Status or a Result; out_of_memory where its memory runs out. For threads and
// destructors, out of which nothing may be thrown.
template <class Body>
auto or_out_of_memory(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::out_of_memory);
  }
}

}  // namespace ple
