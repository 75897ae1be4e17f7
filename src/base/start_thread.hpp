#pragma once

#include <system_error>
#include <thread>
#include <utility>

#include "base/error.hpp"

namespace ple {

// A thread that runs body, which must not throw; out_of_memory where the system has none to give.
template <class Body>
Result<std::thread> start_thread(Body body) {
  try {
    return std::thread(std::move(body));
  } catch (const std::system_error& failure) {
    return error(StatusCode::out_of_memory, "a thread does not start: {}", failure.what());
  }
}

}  // namespace ple
