#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ple {

// What to measure the hit path with.
struct HitSpeedOptions {
  std::uint64_t arena_bytes = std::uint64_t{4} << 30;
  std::int32_t row_bytes = 320;
  // Row ids of a step, number step_index, below row_count; part of what is timed. Called by two
  // threads at once. Empty: uniformly random ids made beforehand, of a table that fills the arena.
  std::function<void(std::uint64_t step_index, std::span<RowId> ids)> make_ids;
  std::uint64_t row_count = 0;  // with make_ids: at most the slots of the arena, so that all hit
  std::uint32_t repeats = 9;    // 8 of the large steps each, more of the small ones
};

struct HitSpeed {
  std::uint64_t arena_bytes = 0;
  double hit_ids_per_s = 0;  // stage, wait and release of steps of 131,072 ids, one thread
  double stage_16_us = 0;    // stage alone
  double stage_1024_us = 0;
  double stage_131072_us = 0;
  double two_thread_scale = 0;  // ids per second of two threads over one
  double bytes_per_slot = 0;    // of metadata
};

// Fills a cache with a table that is made up (its rows are never written), and times steps that
// hit; medians. Takes seconds, and 8 bytes of memory per slot.
Result<HitSpeed> measure_hit_speed(const HitSpeedOptions& options);

}  // namespace ple
