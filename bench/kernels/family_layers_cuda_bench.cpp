// LongCat's and Gemma's layers of released widths on one CUDA device: replayed graphs, rows in HBM
// slots, bf16. Every case is checked against the CPU before it is timed. Weights are rotated over
// several copies, so that no step finds them in the L2. Floors: the bytes that a step must read and
// write, at the rate of a copy in the same run, and its products at --tflops.

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "cuda_timing.hpp"
#include "device/cuda_graph.hpp"
#include "kernels/block_layers.hpp"

namespace ple::test {
namespace {

constexpr std::int32_t kStepTokens[] = {1, 8, 64, 256, 1024, 4096};
constexpr std::size_t kRotation = 6;  // copies of the weights
constexpr kernels::LongcatShape kLongcatLite{
    .vocab_size = 8192, .hidden = 3072, .table_count = 12, .row_dim = 256};
constexpr kernels::GemmaShape kGemmaE2b{
    .hidden = 2048, .layer_count = 30, .layer_dim = 256, .eps = 1e-6F};

struct Rates {
  double gb_per_s;
  double tflops;
};

// What a step must move and compute.
struct Work {
  double weight_bytes;
  double token_bytes;
  double token_flops;

  double floor_us(std::int32_t tokens, const Rates& rates) const {
    return std::max((weight_bytes + tokens * token_bytes) / rates.gb_per_s * 1e-3,
                    tokens * token_flops / rates.tflops * 1e-6);
  }
};

template <class Layer, class Problem>
void bench_layer(const char* name, const Problem& problem, const Work& work, const Rates& rates,
                 bool is_smoke, std::int32_t only_tokens) {
  const std::vector<float> expected = problem.run_cpu(false, HighwayType::bf16);
  const std::size_t width = expected.size() / static_cast<std::size_t>(problem.tokens.token_count);
  const CudaStream stream = CudaStream::create().value();
  std::vector<std::int32_t> step_tokens(std::begin(kStepTokens), std::end(kStepTokens));
  if (only_tokens != 0) step_tokens = {only_tokens};
  for (const std::int32_t tokens : step_tokens) {
    if (tokens > problem.tokens.token_count) break;
    std::vector<std::unique_ptr<Layer>> layers;
    std::vector<CudaGraph> graphs;
    for (std::size_t i = 0; i < (is_smoke ? 1 : kRotation); ++i) {
      layers.push_back(std::make_unique<Layer>(problem, tokens, true, false, HighwayType::bf16));
      const std::vector<float> got = layers.back()->run(0, tokens);
      const double error = distance(
          got, {expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(got.size())});
      if (got.size() != static_cast<std::size_t>(tokens) * width || !(error < 1e-3)) {
        fmt::print(stderr, "{}, {} tokens: {} away from the CPU\n", name, tokens, error);
        std::exit(1);
      }
      auto graph =
          CudaGraph::capture(stream.get(), [&] { return layers.back()->enqueue(stream.get()); });
      check(graph.status());
      graphs.push_back(std::move(graph).value());
    }
    const std::int32_t batch = tokens > 512 ? 12 : 60;
    const std::int32_t batches = is_smoke ? 1 : 15;
    const Times cold = time_calls(stream.get(), batches, batch, [&](std::int32_t i) {
      return graphs[static_cast<std::size_t>(i) % graphs.size()].launch(stream.get());
    });
    const Times alone = time_calls(stream.get(), batches * 4, 1,
                                   [&](std::int32_t) { return graphs[0].launch(stream.get()); });
    const double floor = work.floor_us(tokens, rates);
    fmt::print(
        "{:8} {:5} tokens {:8.1f} us ({:.1f} to {:.1f})  one replay {:8.1f} us  floor "
        "{:6.1f} us  {:.2f} floors\n",
        name, tokens, cold.median_us, cold.least_us, cold.most_us, alone.median_us, floor,
        cold.median_us / floor);
    std::fflush(stdout);
  }
}

Work longcat_work(const kernels::LongcatShape& shape) {
  const double hidden = shape.hidden;
  const double inner = static_cast<double>(shape.table_count) * shape.row_dim;
  return {.weight_bytes = 2 * hidden * inner,
          .token_bytes = 2 * (inner + hidden + hidden),  // rows, the word, the output
          .token_flops = 2 * hidden * inner};
}

Work gemma_work(const kernels::GemmaShape& shape) {
  const double hidden = shape.hidden;
  const double width = static_cast<double>(shape.layer_count) * shape.layer_dim;
  return {.weight_bytes = 2 * hidden * width,
          .token_bytes = 2 * (hidden + width + width),  // the input, the row, the output
          .token_flops = 2 * hidden * width};
}

int run(int argc, char** argv) {
  if (cuda_device_count() == 0) {
    fmt::print(stderr, "no CUDA device\n");
    return 77;
  }
  bool is_smoke = false;
  std::int32_t only_tokens = 0;
  Rates rates{.tflops = 767.0};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--smoke") is_smoke = true;
    if (argument.starts_with("--tokens=")) only_tokens = std::atoi(argv[i] + 9);
    if (argument.starts_with("--tflops=")) rates.tflops = std::strtod(argv[i] + 9, nullptr);
  }
  const CudaTraits traits = cuda_traits(0).value();
  fmt::print("{}, {} multiprocessors, L2 {} MB\n", traits.name, traits.multiprocessor_count,
             traits.l2_bytes >> 20);
  rates.gb_per_s = print_copy_rate(is_smoke);
  fmt::print("products at {:.0f} TFLOPS\n", rates.tflops);
  Random random(7);
  const std::int32_t tokens = is_smoke ? 64 : only_tokens != 0 ? only_tokens : 4096;
  bench_layer<LongcatCuda>("longcat",
                           LongcatProblem(random, kLongcatLite, RowFormat::bf16, tokens, 1U << 15),
                           longcat_work(kLongcatLite), rates, is_smoke, only_tokens);
  bench_layer<GemmaCuda>("gemma",
                         GemmaProblem(random, kGemmaE2b, RowFormat::bf16, tokens, 1U << 11),
                         gemma_work(kGemmaE2b), rates, is_smoke, only_tokens);
  return 0;
}

}  // namespace
}  // namespace ple::test

int main(int argc, char** argv) { return ple::test::run(argc, argv); }
