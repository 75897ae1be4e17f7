#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "json_text.hpp"
#include "names.hpp"
#include "options.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades bench cache
  pleiades bench cache --arena-bytes 1GiB --json

Measures the path of rows that are in memory: look-up, lease, and whole stages of a step.)";

struct Arguments {
  std::uint64_t arena_bytes = std::uint64_t{4} << 30;
  bool json = false;
};

int bench_cache(const Arguments& arguments) {
  ple_cache_measurement measured = PLE_CACHE_MEASUREMENT_INIT;
  check(ple_measure_cache(arguments.arena_bytes, &measured));
  if (arguments.json) {
    const nlohmann::ordered_json json = {{"arena_bytes", measured.arena_bytes},
                                         {"hit_ids_per_s", measured.hit_ids_per_s},
                                         {"stage_16_us", measured.stage_16_us},
                                         {"stage_1024_us", measured.stage_1024_us},
                                         {"stage_131072_us", measured.stage_131072_us},
                                         {"two_thread_scale", measured.two_thread_scale},
                                         {"bytes_per_slot", measured.bytes_per_slot}};
    fmt::print("{}\n", json_text(json));
    return kOk;
  }
  fmt::print("an arena of {}: {:.0f} million hits/s on one thread, {:.2f} times that on two\n",
             bytes_text(measured.arena_bytes), measured.hit_ids_per_s * 1e-6,
             measured.two_thread_scale);
  fmt::print(
      "a stage of 16 hits {:.2f} us, of 1,024 {:.1f} us, of 131,072 {:.0f} us; "
      "{:.1f} bytes of metadata a slot\n",
      measured.stage_16_us, measured.stage_1024_us, measured.stage_131072_us,
      measured.bytes_per_slot);
  return kOk;
}

}  // namespace

Action make_bench_cache(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  options.examples(kExamples);
  options.bytes("--arena-bytes", arguments->arena_bytes, "Size of the arena (4GiB)");
  options.json(arguments->json);
  return [arguments] { return bench_cache(*arguments); };
}

}  // namespace pleiades::cli
