#pragma once

#include <cstdint>
#include <functional>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// What reading a whole model's tables found.
struct VerifyReport {
  std::uint64_t rows_checked = 0;
  std::uint64_t rows_not_finite = 0;
  std::uint64_t first_bad_row = 0;  // when rows_not_finite is not 0
  std::int32_t first_bad_layer = 0;
  bool sums_checked = false;
  std::uint64_t sample_rows = 0;
  std::uint64_t sample_mismatches = 0;
};

// Told how many rows of how many are done; false stops the work.
using Progress = std::function<bool(std::uint64_t done, std::uint64_t total)>;

// Reads every row of every layer once, and a sample of rows through a cache far too small for them
// as well as directly.
Result<VerifyReport> verify(const ModelSpec& model, const Progress& progress);

}  // namespace ple
