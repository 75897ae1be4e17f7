#pragma once

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <span>

namespace pleiades::cli {

// A chunk of tokens none of whose rows is in memory, from token ids to rows in slots: hashed,
// deduplicated, looked up, read. Nothing of it is in the page cache where reads are direct.
struct ColdChunk {
  std::uint64_t rows = 0;  // distinct
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;  // read
  double seconds = 0;

  double per_second(std::uint64_t count) const { return static_cast<double>(count) / seconds; }
};

// The median by reads per second of chunks of 8,192 tokens (of one of all tokens where there are
// fewer), each by an engine just opened. Refuses when a row is not what the file holds.
ColdChunk measure_cold_chunk(const Model& model, const ple_layer_info& layer,
                             const EngineOptions& options, std::span<const std::int32_t> tokens);

}  // namespace pleiades::cli
