#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <pleiades/pleiades.hpp>
#include <utility>

namespace pleiades::python {

// Runs `work` with a Progress that calls `callback` (None: nothing) with (done, total) now and
// then, stops when it returns False, and lets Ctrl-C through. What Python raised is raised again.
template <class Work>
auto with_progress(const nanobind::object& callback, const Work& work) {
  std::optional<nanobind::python_error> raised;
  const Progress progress = [&](std::uint64_t done, std::uint64_t total) {
    const nanobind::gil_scoped_acquire locked;
    try {
      if (PyErr_CheckSignals() != 0) nanobind::raise_python_error();
      if (callback.is_none()) return true;
      const nanobind::object answer = callback(done, total);
      return answer.is_none() || nanobind::cast<bool>(nanobind::bool_(answer));
    } catch (nanobind::python_error& error) {
      raised.emplace(std::move(error));
      return false;
    }
  };
  try {
    const nanobind::gil_scoped_release unlocked;
    return work(progress);
  } catch (const Error&) {
    if (raised) throw std::move(*raised);
    throw;
  }
}

}  // namespace pleiades::python
