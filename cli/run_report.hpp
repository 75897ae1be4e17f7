#pragma once

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

#include "layer_stream.hpp"

namespace pleiades::cli {

// What `run` found out. Times are those of the library's calls: making the highway and hashing the
// output are not part of them.
struct RunReport {
  // One step, and how things stood after it (the counters only where they were asked for).
  struct Step {
    LayerStream::Record times;
    ple_metrics metrics;
    std::uint64_t rss_bytes;
  };

  std::string path;
  ple_layer_info layer;
  std::int64_t sequence_count = 1;
  std::vector<Step> steps;
  ple_engine_info engine;
  ple_metrics metrics;
  std::vector<ple_time_bucket> read_times;
  std::string output_digest;
  std::uint64_t peak_rss_bytes = 0;

  void print_json(bool with_steps) const;
  void print_text() const;
};

// The memory of this process: now, and the most it ever held.
std::uint64_t rss_bytes();
std::uint64_t peak_rss_bytes();

}  // namespace pleiades::cli
