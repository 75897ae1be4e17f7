// The layers of the other families on the CPU at their released widths, all rows resident, each
// taking turns with its product alone by oneDNN, so that whatever else the machine does hits both.
// The layers' results are verified in tests; a time is that of one whole step.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/engram_layer_cpu.hpp"
#include "kernels/gemma_layer_cpu.hpp"
#include "kernels/longcat_layer_cpu.hpp"
#include "kernels/onednn_products.hpp"
#include "support/ple_problem.hpp"

namespace {

using namespace ple;
using kernels::HighwayType;

constexpr std::uint32_t kRowCount = 4096;

ThreadPool& pool() {
  static const std::unique_ptr<ThreadPool> shared = ThreadPool::create(0).value();
  return *shared;
}

// A product's weights, random rows, slots and a stream.
class Inputs {
 public:
  Inputs(std::int64_t product_rows, std::int64_t inner, const RowEncoding& encoding)
      : product_rows_(product_rows),
        inner_(inner),
        encoding_(encoding),
        weights_(test::detail::random_bf16(engine_, product_rows * inner, 0.02F)) {
    slot_bytes_ = static_cast<std::uint32_t>(encoding.row_bytes + 15) / 16 * 16;
    table_.resize(std::size_t{kRowCount} * slot_bytes_);
    for (std::uint32_t row = 0; row < kRowCount; ++row) {
      test::detail::fill_row(engine_, encoding, table_.data() + std::size_t{row} * slot_bytes_);
    }
  }

  RowView rows() const { return {table_.data(), nullptr, kRowCount, slot_bytes_, encoding_}; }
  std::vector<std::uint32_t> slots(std::int64_t count) {
    std::vector<std::uint32_t> slots(static_cast<std::size_t>(count));
    for (std::uint32_t& slot : slots) slot = static_cast<std::uint32_t>(engine_() % kRowCount);
    return slots;
  }
  std::vector<std::uint16_t> stream(std::int64_t count) {
    return test::detail::random_bf16(engine_, count, 1.0F);
  }
  const std::vector<std::uint16_t>& weights() const { return weights_; }  // [product_rows, inner]
  std::int64_t inner() const { return inner_; }
  std::int64_t product_rows() const { return product_rows_; }

 private:
  std::mt19937_64 engine_{1};
  std::int64_t product_rows_;
  std::int64_t inner_;
  RowEncoding encoding_;
  std::vector<std::uint16_t> weights_;
  std::uint32_t slot_bytes_ = 0;
  std::vector<std::byte> table_;
};

template <class Body>
double seconds_of(Body&& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <class Step>
void take_turns(benchmark::State& state, Inputs& inputs, std::int64_t tokens, Step&& step) {
  bench::OneDnnProducts product({{inputs.weights().data(), inputs.product_rows()}}, inputs.inner(),
                                tokens);
  const auto x = inputs.stream(tokens * inputs.inner());
  std::vector<float> y(static_cast<std::size_t>(tokens * inputs.product_rows()));
  std::vector<double> layer_seconds, product_seconds;
  product.run(x.data(), {y.data()});
  step();
  for (auto _ : state) {
    layer_seconds.push_back(seconds_of(step));
    product_seconds.push_back(seconds_of([&] { product.run(x.data(), {y.data()}); }));
    state.SetIterationTime(layer_seconds.back());
  }
  const double seconds = median(layer_seconds);
  state.counters["median_us"] = seconds * 1e6;
  state.counters["onednn_us"] = median(product_seconds) * 1e6;
  state.counters["of_onednn"] = seconds / median(product_seconds);
  state.counters["GB/s"] = 2e-9 * static_cast<double>(inputs.weights().size()) / seconds;
}

AlignedBuffer buffer_of(std::size_t bytes) { return AlignedBuffer::allocate(bytes).value(); }

void engram_v41(benchmark::State& state, kernels::EngramRounding rounding, bool is_e4m3) {
  constexpr kernels::EngramShape kShape{
      .hidden = 5120, .stream_count = 4, .embed_dim = 6144, .column_count = 24, .eps = 1e-20F};
  static Inputs inputs(5 * 5120, 6144, {RowFormat::fp8_e4m3_e8m0, 256, 264});
  const auto tokens = static_cast<std::int32_t>(state.range(0));
  const std::vector<std::uint16_t> vectors(4 * 5120, 0x3F80);
  auto weights =
      kernels::EngramWeightsCpu::create(kShape, rounding, vectors, vectors, is_e4m3).value();
  kernels::PackedMatrix& matrix = weights.key_value();
  if (is_e4m3) {
    std::vector<std::uint8_t> codes(inputs.weights().size());
    for (std::size_t i = 0; i < codes.size(); ++i)
      codes[i] = static_cast<std::uint8_t>(inputs.weights()[i] % 0x7F);
    const std::vector<std::uint8_t> scales(codes.size() / 1024, 115);
    const Status packed = matrix.pack_e4m3_rows(0, 5 * 5120, codes.data(), scales.data());
    if (!packed.is_ok()) std::abort();
  } else if (!matrix.pack_rows(0, 5 * 5120, inputs.weights().data()).is_ok()) {
    std::abort();
  }
  const auto slots = inputs.slots(std::int64_t{tokens} * 24);
  auto stream = inputs.stream(std::int64_t{tokens} * 4 * 5120);
  AlignedBuffer scratch = buffer_of(kernels::engram_layer_scratch_bytes_cpu(kShape, tokens));
  kernels::EngramLayerArgs args;
  args.shape = kShape;
  args.rounding = rounding;
  args.highway_type = HighwayType::bf16;
  args.rows = inputs.rows();
  args.slots = slots.data();
  args.highway = stream.data();
  args.output = stream.data();
  args.scratch = scratch.data();
  args.token_count = tokens;
  take_turns(state, inputs, tokens, [&] {
    if (!kernels::engram_layer_cpu(args, weights, pool()).is_ok()) std::abort();
  });
}

void longcat_lite(benchmark::State& state) {
  constexpr kernels::LongcatShape kShape{
      .vocab_size = 1000, .hidden = 3072, .table_count = 12, .row_dim = 256};
  static Inputs inputs(3072, 3072, {RowFormat::bf16, 256, 512});
  const auto tokens = static_cast<std::int32_t>(state.range(0));
  auto weights = kernels::LongcatWeightsCpu::create(kShape, false).value();
  for (std::size_t i = 0; i < 12; ++i) {
    const std::uint16_t* rows = inputs.weights().data() + i * 3072 * 256;
    if (!weights.projections()[i].pack_rows(0, 3072, rows).is_ok()) std::abort();
  }
  const auto slots = inputs.slots(std::int64_t{tokens} * 12);
  std::vector<TokenId> ids(static_cast<std::size_t>(tokens));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<TokenId>(i * 37 % 1000);
  const std::vector<std::uint8_t> ignored(ids.size());
  std::vector<std::uint16_t> output(ids.size() * 3072);
  AlignedBuffer scratch = buffer_of(kernels::longcat_layer_scratch_bytes_cpu(kShape, tokens));
  kernels::LongcatLayerArgs args;
  args.shape = kShape;
  args.output_type = HighwayType::bf16;
  args.rows = inputs.rows();
  args.slots = slots.data();
  args.tokens = ids.data();
  args.ignored = ignored.data();
  args.output = output.data();
  args.scratch = scratch.data();
  args.token_count = tokens;
  take_turns(state, inputs, tokens, [&] {
    if (!kernels::longcat_layer_cpu(args, weights, pool()).is_ok()) std::abort();
  });
}

void gemma_e2b(benchmark::State& state) {
  constexpr kernels::GemmaShape kShape{
      .hidden = 2048, .layer_count = 30, .layer_dim = 256, .eps = 1e-6F};
  static Inputs inputs(30 * 256, 2048, {RowFormat::bf16, 7680, 15360});
  const auto tokens = static_cast<std::int32_t>(state.range(0));
  const std::vector<std::uint16_t> norm(256, 0x3F80);
  auto weights = kernels::GemmaWeightsCpu::create(kShape, false, norm).value();
  if (!weights.projection().pack_rows(0, 7680, inputs.weights().data()).is_ok()) std::abort();
  const auto slots = inputs.slots(tokens);
  const auto stream = inputs.stream(std::int64_t{tokens} * 2048);
  std::vector<std::uint16_t> output(static_cast<std::size_t>(tokens) * 7680);
  AlignedBuffer scratch = buffer_of(kernels::gemma_layer_scratch_bytes_cpu(kShape, tokens));
  kernels::GemmaLayerArgs args;
  args.shape = kShape;
  args.type = HighwayType::bf16;
  args.rows = inputs.rows();
  args.slots = slots.data();
  args.input = stream.data();
  args.output = output.data();
  args.scratch = scratch.data();
  args.token_count = tokens;
  take_turns(state, inputs, tokens, [&] {
    if (!kernels::gemma_layer_cpu(args, weights, pool()).is_ok()) std::abort();
  });
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

BENCHMARK_CAPTURE(engram_v41, dequantized, kernels::EngramRounding{}, true)
    ->Apply(with_token_counts);
BENCHMARK_CAPTURE(engram_v41, fp8, kernels::EngramRounding{true, true}, true)
    ->Apply(with_token_counts);
BENCHMARK_CAPTURE(engram_v41, fp8_held_in_bf16, kernels::EngramRounding{true, true}, false)
    ->Apply(with_token_counts);
BENCHMARK(longcat_lite)->Apply(with_token_counts);
BENCHMARK(gemma_e2b)->Apply(with_token_counts);

}  // namespace

// --smoke: a quick one once, to see that it still works.
int main(int argc, char** argv) {
  std::vector<char*> arguments(argv, argv + argc);
  char smoke_time[] = "--benchmark_min_time=0";
  char smoke_filter[] = "--benchmark_filter=(longcat|gemma).*tokens:(1|8)/";
  if (argc > 1 && std::string_view(argv[1]) == "--smoke") {
    arguments = {argv[0], smoke_time, smoke_filter};
  }
  int argument_count = static_cast<int>(arguments.size());
  benchmark::Initialize(&argument_count, arguments.data());
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
