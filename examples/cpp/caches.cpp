// A resident table, a cached one and a cache of size 0 give the same bits; the counters tell them
// apart. A log sink hears what the library does.

#include "example.hpp"

namespace {

void print_line(void*, ple_log_level, const char* line) { std::printf("  log: %s\n", line); }

std::vector<float> run_with(const pleiades::Model& model, const pleiades::EngineOptions& options,
                            const char* name) {
  auto engine = pleiades::Engine::open(model, options);
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  std::vector<float> out;
  for (int repeat = 0; repeat < 3; ++repeat) {
    out = forward(step, sequence, model.layers().front(), some_tokens(40));
  }
  const ple_metrics metrics = engine.metrics();
  std::printf(
      "%-9s %llu rows asked, %llu distinct, %llu in memory, %llu read; p99 of a read %.0f us\n",
      name, static_cast<unsigned long long>(metrics.rows_asked),
      static_cast<unsigned long long>(metrics.rows_distinct),
      static_cast<unsigned long long>(metrics.rows_hit),
      static_cast<unsigned long long>(metrics.rows_missed), metrics.read.p99_us);
  return out;
}

void run(const pleiades::Model& model) {
  const auto resident =
      run_with(model, {.arena = PLE_ARENA_RESIDENT, .log = print_line}, "resident");
  const auto cached =
      run_with(model, {.arena = PLE_ARENA_CACHED, .cache_bytes = 16 << 10}, "cached");
  const auto none = run_with(model, {.arena = PLE_ARENA_CACHED, .cache_bytes = 0}, "no cache");
  expect(resident == cached && cached == none, "all three give the same bits");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
