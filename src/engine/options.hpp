#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "io/block_reader.hpp"
#include "kernels/ple_layer.hpp"

namespace ple {

// The values of ple_arena, ple_slot_memory and ple_projection.
enum class Arena : std::int32_t { automatic = 0, cached = 1, resident = 2 };
enum class SlotPlace : std::int32_t { automatic = 0, device = 1, pinned = 2 };
enum class Projection : std::int32_t { automatic = 0, fp8 = 1, dequantized = 2 };

// ple_engine_options as the library's own types; what is "automatic" there is decided at open.
struct EngineOptions {
  std::string device = "cpu";
  bool default_arithmetic = true;  // mixed for a GPU, float32 for a CPU
  kernels::Arithmetic arithmetic = kernels::Arithmetic::float32;
  Arena arena = Arena::automatic;
  SlotPlace slot_place = SlotPlace::automatic;
  Projection projection = Projection::automatic;
  std::uint64_t cache_bytes = 0;
  std::int32_t thread_count = 0;
  std::int32_t draft_max = 0;
  std::vector<std::int32_t> layers;  // empty: all
  BlockReaderOptions reader;
  std::int64_t read_deadline_ms = 30'000;
  std::string warm_start;  // empty: none
  LogSink log;
};

}  // namespace ple
