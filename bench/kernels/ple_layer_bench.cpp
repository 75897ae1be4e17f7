// The PLE layer on the CPU at the released width, all rows resident, next to two ceilings measured
// in the same run: the read bandwidth of all threads, and the two products alone by oneDNN. Results
// are verified before they are timed; a time is that of one whole step.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/thread_pool.hpp"
#include "kernels/gather_rows.hpp"
#include "kernels/onednn_products.hpp"
#include "kernels/ple_layer_cpu.hpp"
#include "kernels/projection.hpp"
#include "support/ple_cases.hpp"
#include "support/ple_oracle.hpp"
#include "support/ple_problem.hpp"

namespace {

using namespace ple;
using kernels::Arithmetic;
using kernels::HighwayType;

constexpr kernels::PleShape kShape = test::released_ple_shape();
constexpr double kWeightCount = 2560.0 * (10240 + 2560);
constexpr std::int32_t kRingLength = 10;

// What all benchmarks share.
struct Layer {
  std::unique_ptr<ThreadPool> pool = ThreadPool::create(0).value();
  test::PleProblem problem = test::make_ple_problem(kShape, RowFormat::bf16, 160, 1);
  kernels::PleWeightsCpu weights =
      kernels::PleWeightsCpu::create(problem.shape, problem.vectors()).value();

  Layer() {
    if (!weights.key().pack_rows(0, problem.channel_count(), problem.key.data()).is_ok() ||
        !weights.value().pack_rows(0, kShape.hidden, problem.value.data()).is_ok()) {
      std::abort();
    }
  }
};

Layer& layer() {
  static Layer shared;
  return shared;
}

// One step of a single sequence, always from position 0, so that it can be repeated.
class Step {
 public:
  Step(std::int32_t token_count, Arithmetic arithmetic, HighwayType type)
      : sequence_(test::make_ple_sequence(layer().problem, token_count, 2)),
        x_(static_cast<std::size_t>(token_count) * 2560) {
    ring_ = AlignedBuffer::allocate(
                static_cast<std::size_t>(kernels::PleRing::bytes(kShape, arithmetic, kRingLength)))
                .value();
    scratch_ = AlignedBuffer::allocate(kernels::ple_layer_scratch_bytes_cpu(
                                           layer().problem.shape, arithmetic, token_count))
                   .value();
    highway_.assign(sequence_.highway.begin(), sequence_.highway.end());
    output_.resize(highway_.size());
    if (type == HighwayType::bf16) {
      auto* narrow = reinterpret_cast<std::uint16_t*>(highway_.data());
      for (std::size_t i = 0; i < highway_.size(); ++i)
        narrow[i] = f32_to_bf16(sequence_.highway[i]);
    }
    span_ = {.ring = ring_.data(),
             .position = 0,
             .token_begin = 0,
             .token_count = token_count,
             .cursor = 0,
             .write_count = 1};
    args_ = {.shape = layer().problem.shape,
             .arithmetic = arithmetic,
             .highway_type = type,
             .output_mode = kernels::OutputMode::delta,
             .rows = layer().problem.rows(),
             .slots = sequence_.slots.data(),
             .highway = highway_.data(),
             .output = output_.data(),
             .spans = &span_,
             .scratch = scratch_.data(),
             .span_count = 1,
             .token_count = token_count,
             .ring_length = kRingLength};
    kernels::gather_rows_cpu({.rows = args_.rows,
                              .slots = args_.slots,
                              .out = x_.data(),
                              .stride = 2560,
                              .token_count = token_count,
                              .column_count = 16});
  }

  bool run() { return kernels::ple_layer_cpu(args_, layer().weights, *layer().pool).is_ok(); }

  // Relative error of the first token's output against float64.
  double error() {
    std::vector<float> head(sequence_.highway.begin(), sequence_.highway.begin() + 10240);
    const auto expected = test::PleOracle(layer().problem, args_.arithmetic).run(x_, head);
    std::vector<float> got(output_.begin(), output_.begin() + 10240);
    if (args_.highway_type == HighwayType::bf16) {
      const auto* narrow = reinterpret_cast<const std::uint16_t*>(output_.data());
      for (std::size_t i = 0; i < got.size(); ++i) got[i] = bf16_to_f32(narrow[i]);
    }
    return test::relative_error(got, expected);
  }

  const std::uint16_t* x() const { return x_.data(); }  // [token_count, 2560] bf16

 private:
  test::PleSequence sequence_;
  std::vector<std::uint16_t> x_;
  AlignedBuffer ring_, scratch_;
  std::vector<float> highway_, output_;
  kernels::PleSpan span_;
  kernels::PleLayerArgs args_;
};

// Seconds of the best run so far, by what ran; later benchmarks are shown as shares of them.
double g_bytes_per_second = 0.0;
std::map<std::int64_t, double> g_products_seconds;

class Timer {
 public:
  explicit Timer(benchmark::State& state) : state_(state) {}

  template <class Body>
  void repeat(Body&& body) {
    for (auto _ : state_) {
      const auto begin = std::chrono::steady_clock::now();
      body();
      const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
      state_.SetIterationTime(passed.count());
      best_ = std::min(best_, passed.count());
    }
  }
  double best_seconds() const { return best_; }

 private:
  benchmark::State& state_;
  double best_ = 1e9;
};

void report(benchmark::State& state, double seconds, std::int64_t token_count) {
  const double bytes = 2.0 * kWeightCount;
  state.counters["best_us"] = seconds * 1e6;
  state.counters["GB/s"] = bytes / seconds * 1e-9;
  state.counters["GFLOP/s"] =
      2.0 * kWeightCount * static_cast<double>(token_count) / seconds * 1e-9;
  if (g_bytes_per_second > 0) {
    state.counters["of_read"] = bytes / seconds / g_bytes_per_second;
  }
  if (const auto products = g_products_seconds.find(token_count);
      products != g_products_seconds.end()) {
    state.counters["of_onednn"] = seconds / products->second;
  }
}

void read_bandwidth(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  AlignedBuffer buffer = AlignedBuffer::allocate(kBytes).value();
  std::memset(buffer.data(), 1, kBytes);
  Timer timer(state);
  timer.repeat([&] {
    layer().pool->parallel_for(kBytes / kBlockBytes, [&](std::int64_t block) {
      const auto* from = buffer.as<std::uint64_t>() + block * (kBlockBytes / 8);
      std::uint64_t sum = 0;
      for (std::size_t i = 0; i < kBlockBytes / 8; ++i) sum += from[i];
      benchmark::DoNotOptimize(sum);
    });
  });
  g_bytes_per_second = kBytes / timer.best_seconds();
  state.counters["GB/s"] = g_bytes_per_second * 1e-9;
}

void products_onednn(benchmark::State& state) {
  const auto token_count = static_cast<std::int32_t>(state.range(0));
  const Step step(token_count, Arithmetic::float32, HighwayType::f32);
  bench::OneDnnProducts products(
      {{layer().problem.key.data(), 10240}, {layer().problem.value.data(), 2560}}, 2560,
      token_count);
  std::vector<float> key(static_cast<std::size_t>(token_count) * 10240);
  std::vector<float> value(static_cast<std::size_t>(token_count) * 2560);
  products.run(step.x(), {key.data(), value.data()});
  Timer timer(state);
  timer.repeat([&] { products.run(step.x(), {key.data(), value.data()}); });
  g_products_seconds[token_count] = timer.best_seconds();
  report(state, timer.best_seconds(), token_count);
}

void products(benchmark::State& state) {
  const auto token_count = static_cast<std::int32_t>(state.range(0));
  const Step step(token_count, Arithmetic::float32, HighwayType::f32);
  std::vector<float> key(static_cast<std::size_t>(token_count) * 10240);
  std::vector<float> value(static_cast<std::size_t>(token_count) * 2560);
  const kernels::Activations<std::uint16_t> x{step.x(), 2560, token_count};
  Timer timer(state);
  timer.repeat([&] {
    kernels::project(layer().weights.key(), x, key.data(), *layer().pool);
    kernels::project(layer().weights.value(), x, value.data(), *layer().pool);
  });
  report(state, timer.best_seconds(), token_count);
}

void products_f32(benchmark::State& state) {
  const auto token_count = static_cast<std::int32_t>(state.range(0));
  const Step step(token_count, Arithmetic::float32, HighwayType::f32);
  std::vector<float> wide(static_cast<std::size_t>(token_count) * 2560);
  for (std::size_t i = 0; i < wide.size(); ++i) wide[i] = bf16_to_f32(step.x()[i]);
  std::vector<float> key(static_cast<std::size_t>(token_count) * 10240);
  std::vector<float> value(static_cast<std::size_t>(token_count) * 2560);
  const kernels::Activations<float> x{wide.data(), 2560, token_count};
  Timer timer(state);
  timer.repeat([&] {
    kernels::project(layer().weights.key(), x, key.data(), *layer().pool);
    kernels::project(layer().weights.value(), x, value.data(), *layer().pool);
  });
  report(state, timer.best_seconds(), token_count);
}

void ple_layer(benchmark::State& state, Arithmetic arithmetic, HighwayType type) {
  const auto token_count = static_cast<std::int32_t>(state.range(0));
  Step step(token_count, arithmetic, type);
  if (!step.run() ||
      step.error() >
          (type == HighwayType::f32 && arithmetic == Arithmetic::float32 ? 1e-5 : 5e-3)) {
    state.SkipWithError("the step is wrong");
    return;
  }
  Timer timer(state);
  timer.repeat([&] { step.run(); });
  report(state, timer.best_seconds(), token_count);
}

void with_token_counts(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("tokens")
      ->UseManualTime()
      ->Unit(benchmark::kMicrosecond)
      ->Arg(1)
      ->Arg(8)
      ->Arg(64)
      ->Arg(512);
}

BENCHMARK(read_bandwidth)->UseManualTime()->Unit(benchmark::kMillisecond);
BENCHMARK(products_onednn)->Apply(with_token_counts);
BENCHMARK(products)->Apply(with_token_counts);
BENCHMARK(products_f32)->Apply(with_token_counts);
BENCHMARK_CAPTURE(ple_layer, float32_f32, Arithmetic::float32, HighwayType::f32)
    ->Apply(with_token_counts);
BENCHMARK_CAPTURE(ple_layer, float32_bf16, Arithmetic::float32, HighwayType::bf16)
    ->Apply(with_token_counts);
BENCHMARK_CAPTURE(ple_layer, mixed_bf16, Arithmetic::mixed, HighwayType::bf16)
    ->Apply(with_token_counts);
BENCHMARK_CAPTURE(ple_layer, reference_bf16, Arithmetic::reference, HighwayType::bf16)
    ->Apply(with_token_counts);

}  // namespace

// --smoke: the quick ones once, to see that they still work.
int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  char smoke_time[] = "--benchmark_min_time=0";
  char smoke_filter[] = "--benchmark_filter=tokens:(1|8)/";
  if (argc > 1 && std::string_view(argv[1]) == "--smoke") {
    arguments = {argv[0], smoke_time, smoke_filter};
  }
  int argument_count = static_cast<int>(arguments.size());
  benchmark::Initialize(&argument_count, arguments.data());
  benchmark::AddCustomContext("products", kernels::projection_target());
  benchmark::AddCustomContext("threads", fmt::format("{}", layer().pool->thread_count()));
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
