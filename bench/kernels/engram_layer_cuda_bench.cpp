// The Engram layer of DeepSeek V4.1 on one CUDA device: replayed graphs, rows in HBM slots, the FP8
// projection, bf16 highway; the weights held in bf16 and in E4M3. Every case is checked against the
// CPU's operators before it is timed. Either copy of the weights is larger than the L2, and they
// take turns.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "cuda_timing.hpp"
#include "kernels/engram_cuda_layer.hpp"
#include "support/ple_oracle.hpp"

namespace ple::test {
namespace {

using kernels::EngramWeightForm;

constexpr kernels::EngramShape kReleased{
    .hidden = 5120, .stream_count = 4, .column_count = 24, .eps = 1e-20F};
constexpr std::int32_t kRowDim = 256;
constexpr kernels::EngramRounding kFp8{.quantizes_rows = true, .rounds_product = true};
constexpr std::int32_t kRotation = 2;
constexpr std::int32_t kCheckedTokens = 3;
constexpr std::int32_t kTokenCounts[] = {1, 8, 64, 256, 1024, 4096};

// What the device reaches: memory, and products of bf16.
struct Rates {
  double gigabytes = 0.0;
  double teraflops = 0.0;
};

// The larger of what the bytes - weights in E4M3, rows, the highway read and written - and the
// product's arithmetic take.
double floor_us(const Rates& rates, std::int32_t token_count) {
  const double elements = 5.0 * kReleased.hidden * kReleased.column_count * kRowDim;
  const double row_bytes = encoded_row_bytes(RowFormat::fp8_e4m3_e8m0, kRowDim);
  const double token_bytes =
      kReleased.column_count * row_bytes + 2.0 * 2.0 * kReleased.stream_count * kReleased.hidden;
  const double bytes_us = (elements + token_count * token_bytes) / rates.gigabytes / 1000.0;
  const double arithmetic_us = 2.0 * elements * token_count / rates.teraflops / 1e6;
  return std::max(bytes_us, arithmetic_us);
}

EngramBatch part_of(const EngramProblem& problem, const EngramBatch& batch, std::int32_t begin,
                    std::int32_t count) {
  const std::int64_t columns = problem.shape.column_count;
  const std::int64_t width = problem.channel_count();
  return {.token_count = count,
          .slots = {batch.slots.begin() + begin * columns,
                    batch.slots.begin() + (begin + count) * columns},
          .dead = {batch.dead.begin() + begin, batch.dead.begin() + begin + count},
          .highway = {batch.highway.begin() + begin * width,
                      batch.highway.begin() + (begin + count) * width}};
}

// Relative, of the last tokens.
double error_of(const EngramProblem& problem, const kernels::EngramWeightsCpu& weights,
                const EngramBatch& batch, const std::vector<float>& output, ThreadPool& pool) {
  const std::int32_t count = std::min(batch.token_count, kCheckedTokens);
  const auto expected =
      run_engram_cpu(problem, part_of(problem, batch, batch.token_count - count, count), weights,
                     kFp8, kernels::OutputMode::update, pool);
  const std::vector<float> actual(output.end() - std::ssize(expected), output.end());
  return relative_error(actual, expected);
}

int run(int argc, char** argv) {
  if (cuda_device_count() == 0) {
    fmt::print(stderr, "no CUDA device\n");
    return 77;
  }
  const bool is_smoke = argc > 1 && std::string(argv[1]) == "--smoke";
  // The second rate as the caller measured it; an H200 reaches about this.
  const Rates rates{print_copy_rate(is_smoke), argc > 1 && !is_smoke ? std::stod(argv[1]) : 767.0};
  const CudaTraits traits = cuda_traits(0).value();
  fmt::print("{}, {} multiprocessors; floors of {:.0f} GB/s and {:.0f} TFLOP/s\n", traits.name,
             traits.multiprocessor_count, rates.gigabytes, rates.teraflops);
  const auto pool = ThreadPool::create(0).value();
  const EngramProblem problem =
      make_engram_problem(kReleased, kRowDim, 7, 114, 117, is_smoke ? 64 : 1 << 18);
  const auto weights = cpu_weights(problem, kFp8);
  for (const std::int32_t token_count : kTokenCounts) {
    if (is_smoke && token_count > 8) break;
    const EngramBatch batch = make_engram_batch(problem, token_count, 7);
    for (const EngramWeightForm form : {EngramWeightForm::bf16, EngramWeightForm::e4m3}) {
      if (form == EngramWeightForm::e4m3 && !traits.has_wgmma()) continue;
      std::vector<std::unique_ptr<EngramCudaLayer>> layers;
      std::vector<float> output;
      for (std::int32_t i = 0; i < kRotation; ++i) {
        layers.push_back(std::make_unique<EngramCudaLayer>(
            problem, EngramCudaLayer::Options{.rounding = kFp8,
                                              .form = form,
                                              .highway_type = kernels::HighwayType::bf16,
                                              .output_mode = kernels::OutputMode::update,
                                              .token_capacity = token_count}));
        output = layers.back()->run(batch);
      }
      const double error = error_of(problem, weights, batch, output, *pool);
      if (!(error < 4e-3)) {
        fmt::print(stderr, "{} tokens: relative error {} to the CPU\n", token_count, error);
        return 1;
      }
      cudaStream_t stream = layers[0]->stream().get();
      const std::int32_t batch_calls = is_smoke ? 1 : token_count > 1000 ? 4 : 20;
      const Times times = time_calls(stream, is_smoke ? 1 : 15, batch_calls, [&](std::int32_t i) {
        return layers[static_cast<std::size_t>(i % kRotation)]->replay(stream);
      });
      const double floor = floor_us(rates, token_count);
      fmt::print(
          "{:5} tokens, weights in {:4}: {:8.1f} us ({:.1f} to {:.1f})  floor {:7.1f} us, "
          "{:.2f} times  error {:.1e}\n",
          token_count, form == EngramWeightForm::bf16 ? "bf16" : "e4m3", times.median_us,
          times.least_us, times.most_us, floor, times.median_us / floor, error);
      std::fflush(stdout);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ple::test

int main(int argc, char** argv) { return ple::test::run(argc, argv); }
