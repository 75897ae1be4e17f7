// The hit path of the row cache: ids looked up and leased per second, and steps staged.
//   hit_speed_bench [--smoke]

#include <fmt/format.h>

#include <string_view>

#include "cache/hit_speed.hpp"

int main(int argc, char** argv) {
  ple::HitSpeedOptions options;
  if (argc > 1 && std::string_view(argv[1]) == "--smoke") {
    options.arena_bytes = std::uint64_t{1} << 20;
    options.repeats = 1;
  }
  const ple::Result<ple::HitSpeed> measured = ple::measure_hit_speed(options);
  if (!measured.is_ok()) {
    fmt::print(stderr, "{}\n", measured.status().message());
    return 1;
  }
  const ple::HitSpeed& speed = measured.value();
  fmt::print(
      "arena {} MiB, {} B of metadata a slot; medians of {}\n"
      "hits, stage to release  {:8.1f} M ids/s\n"
      "stage 16 ids            {:8.2f} us\n"
      "stage 1,024 ids         {:8.2f} us\n"
      "stage 131,072 ids       {:8.1f} us\n"
      "two threads             {:8.2f} x one\n",
      speed.arena_bytes >> 20, speed.bytes_per_slot, options.repeats, speed.hit_ids_per_s / 1e6,
      speed.stage_16_us, speed.stage_1024_us, speed.stage_131072_us, speed.two_thread_scale);
  return 0;
}
