#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "cache/hit_speed.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/metrics.hpp"
#include "io/block_reader.hpp"

namespace ple {

struct IoSpeed {
  BlockReaderInfo reader;
  double reads_per_s = 0;
  double bytes_per_s = 0;
  Quantiles read;
};

// Distinct random rows of a layer's table, read as a step reads its missing rows, for about
// `seconds`.
Result<IoSpeed> measure_io(const ModelSpec& model, const LayerSpec& layer,
                           const BlockReaderOptions& options, double seconds);

// The cache's hit path on an arena of arena_bytes of 320-byte rows, with ids hashed as the released
// Qwen3.8-Flash-Next hashes them (but for smaller tables, so that all rows fit).
Result<HitSpeed> measure_cache(std::uint64_t arena_bytes);

}  // namespace ple
