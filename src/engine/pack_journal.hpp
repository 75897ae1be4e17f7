#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.hpp"

namespace ple {

// Of the journal in the directory that is being written.
inline constexpr const char* kPackJournal = "pack.journal";

// How far packing has come. What it says is done is on the disk.
struct PackProgress {
  // Sums over the rows of a head so far, in their order.
  struct Head {
    double error = 0;  // squared differences
    double norm = 0;   // squared values before
    double worst = 0;  // largest error / norm of a row
    std::uint64_t worst_row = 0;
  };

  bool tensors_copied = false;
  std::uint32_t layer = 0;          // the table that is at work; those before it are done
  std::uint64_t rows_measured = 0;  // of it, whose largest magnitude is known (nvfp4)
  std::uint64_t rows_done = 0;      // of it
  std::uint16_t largest = 0;        // of it, as bf16 bits
  std::vector<Head> heads;          // of all layers

  bool is_begun() const { return tensors_copied; }
};

// The journal of a PackProgress in a partial directory; identity says of what work.
Status save_progress(const std::string& path, std::uint64_t identity, const PackProgress& progress);

// Nothing where there is no journal; refused when it is another work's or damaged.
Result<std::optional<PackProgress>> load_progress(const std::string& path, std::uint64_t identity,
                                                  std::size_t head_count);

}  // namespace ple
