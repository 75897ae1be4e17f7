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
  std::string path;
  ple_layer_info layer;
  std::int64_t sequence_count = 1;
  std::vector<LayerStream::Record> steps;
  ple_engine_info engine;
  ple_metrics metrics;
  std::string output_digest;
  std::uint64_t peak_rss_bytes = 0;

  void print_json(bool with_steps) const;
  void print_text() const;
};

// The most memory this process ever held.
std::uint64_t peak_rss_bytes();

}  // namespace pleiades::cli
