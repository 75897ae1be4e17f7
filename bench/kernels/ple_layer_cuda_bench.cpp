// The PLE layer of the released model on one CUDA device: replayed graphs, rows in HBM slots, mixed
// arithmetic, bf16 highway. Every case is checked against float64 before it is timed. Weights and
// highways are rotated over several copies, so that no step finds them in the L2. A step brings its
// block from pinned memory; `step in HBM`: that is there already. Arguments: the steps to run, by
// their tokens (1 64 8192), or --smoke.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "cuda_timing.hpp"
#include "kernels/cpu_layer.hpp"
#include "kernels/cuda_layer.hpp"
#include "support/ple_cases.hpp"
#include "support/ple_oracle.hpp"

namespace ple::test {
namespace {

constexpr kernels::PleShape kReleased = released_ple_shape();
constexpr std::int32_t kRowDim = 160;
constexpr std::uint64_t kSeed = 7;
constexpr std::int32_t kPrefix = 10;  // tokens that a decoded sequence has behind it

struct BenchCase {
  const char* name;
  std::int32_t sequence_count;
  std::int32_t token_count;  // of each sequence in the step
  std::int32_t rotation;     // copies of weights and highway
  std::int32_t repeats;
  double required_us;
  double goal_us;
};

constexpr BenchCase kCases[] = {
    {"1 token", 1, 1, 4, 400, 23, 18},          {"8 x 1", 8, 1, 4, 400, 24, 19},
    {"64 x 1", 64, 1, 4, 400, 36, 28},          {"256 x 1", 256, 1, 4, 200, 52, 44},
    {"1024 tokens", 1, 1024, 4, 100, 135, 115}, {"8192 tokens", 1, 8192, 1, 30, 900, 780},
};

// A table that is larger than the L2.
PleProblem make_problem(std::uint32_t row_count) {
  PleProblem problem = make_ple_problem(kReleased, RowFormat::bf16, kRowDim, kSeed);
  problem.row_count = row_count;
  problem.table.resize(std::size_t{row_count} * problem.slot_bytes);
  auto* elements = reinterpret_cast<std::uint16_t*>(problem.table.data());
  std::uint32_t state = 1;
  for (std::size_t i = 0; i < problem.table.size() / 2; ++i) {
    state = state * 1664525 + 1013904223;
    elements[i] = f32_to_bf16(static_cast<float>(state >> 8) * 0x1p-23F - 1.0F);
  }
  return problem;
}

// The relative error of the last tokens of a sequence, of which the oracle sees a window.
double error_of_token(const PleProblem& problem, const PleSequence& sequence,
                      const std::vector<float>& output, std::int32_t token) {
  const std::int32_t begin = std::max(0, token - problem.shape.window());
  const std::int64_t width = problem.channel_count();
  PleSequence window;
  window.token_count = token + 1 - begin;
  const std::int64_t columns = problem.shape.column_count;
  window.slots.assign(sequence.slots.begin() + begin * columns,
                      sequence.slots.begin() + (token + 1) * columns);
  window.highway.assign(sequence.highway.begin() + begin * width,
                        sequence.highway.begin() + (token + 1) * width);
  const auto deltas =
      PleOracle(problem, Arithmetic::mixed).run(embeddings_of(problem, window), window.highway);
  std::vector<double> expected(deltas.end() - width, deltas.end());
  for (std::int64_t i = 0; i < width; ++i) {
    expected[static_cast<std::size_t>(i)] += static_cast<double>(
        window.highway[window.highway.size() - static_cast<std::size_t>(width - i)]);
  }
  const std::vector<float> actual(output.begin() + token * width,
                                  output.begin() + (token + 1) * width);
  return relative_error(actual, expected);
}

void bench_case(const PleProblem& problem, const BenchCase& bench, bool is_smoke) {
  const std::int32_t rotation = is_smoke ? 1 : bench.rotation;
  const bool is_decode = bench.token_count == 1;
  std::vector<PleSequence> sequences;
  for (std::int32_t i = 0; i < bench.sequence_count; ++i) {
    sequences.push_back(make_ple_sequence(problem, is_decode ? kPrefix + 1 : bench.token_count,
                                          kSeed + static_cast<unsigned>(i)));
  }
  std::vector<std::unique_ptr<CudaLayer>> layers;
  for (std::int32_t i = 0; i < rotation; ++i) {
    layers.push_back(std::make_unique<CudaLayer>(
        problem, sequences,
        CudaLayer::Options{.arithmetic = Arithmetic::mixed,
                           .highway_type = kernels::HighwayType::bf16,
                           .output_mode = kernels::OutputMode::update,
                           .token_capacity = bench.sequence_count * bench.token_count}));
    std::vector<CudaLayer::Part> parts;
    for (std::size_t s = 0; s < sequences.size(); ++s) parts.push_back({s, bench.token_count});
    for (std::int32_t s = 0; is_decode && s < kPrefix; ++s) layers.back()->step(parts);
    layers.back()->step(parts);
  }
  double error = 0.0;
  for (const std::int32_t sequence : {0, bench.sequence_count / 2, bench.sequence_count - 1}) {
    const auto s = static_cast<std::size_t>(sequence);
    for (const std::int32_t token : {sequences[s].token_count / 2, sequences[s].token_count - 1}) {
      error =
          std::max(error, error_of_token(problem, sequences[s], layers.back()->output(s), token));
    }
  }
  if (!(error < 4e-3)) {
    fmt::print(stderr, "{}: relative error {} to float64\n", bench.name, error);
    std::exit(1);
  }
  cudaStream_t stream = layers[0]->stream().get();
  constexpr std::int32_t kBatch = 20;
  const std::int32_t batch = bench.token_count > 4096 ? 2 : kBatch;
  const std::int32_t batches = is_smoke ? 1 : std::max(bench.repeats / batch, 5);
  const Times cold = time_calls(stream, batches, batch, [&](std::int32_t i) {
    return layers[static_cast<std::size_t>(i % rotation)]->replay(stream);
  });
  const Times resident = time_calls(stream, batches, batch, [&](std::int32_t i) {
    return layers[static_cast<std::size_t>(i % rotation)]->replay(stream, true);
  });
  const Times warm =
      time_calls(stream, batches, batch, [&](std::int32_t) { return layers[0]->replay(stream); });
  const Times alone =
      time_calls(stream, batches * 4, 1, [&](std::int32_t) { return layers[0]->replay(stream); });
  fmt::print(
      "{:12} {:8.1f} us ({:.1f} to {:.1f})  step in HBM {:8.1f} us  same copy {:8.1f} us  "
      "one replay {:8.1f} us  "
      "required {:4.0f} goal {:4.0f}  error {:.1e}\n",
      bench.name, cold.median_us, cold.least_us, cold.most_us, resident.median_us, warm.median_us,
      alone.median_us, bench.required_us, bench.goal_us, error);
  std::fflush(stdout);
}

// Rows that lie in pinned memory into slots of HBM: read over the bus by the kernel, or brought to
// the device by the copy engine first.
void bench_place(bool is_smoke) {
  const std::int64_t row_count = is_smoke ? 64 : 131072;
  constexpr std::uint32_t kSlotBytes = 320;
  const auto bytes = static_cast<std::size_t>(row_count) * kSlotBytes;
  const PinnedBuffer rows = PinnedBuffer::allocate(bytes).value();
  const PinnedBuffer slots =
      PinnedBuffer::allocate(static_cast<std::size_t>(row_count) * sizeof(SlotId)).value();
  std::memset(rows.data(), 1, bytes);
  const std::uint32_t slot_count = static_cast<std::uint32_t>(row_count) * 16 + 1;
  for (std::int64_t i = 0; i < row_count; ++i) {
    slots.as<SlotId>()[i] = static_cast<SlotId>(i * 48271 % slot_count);
  }
  const DeviceBuffer arena = DeviceBuffer::allocate(std::size_t{slot_count} * kSlotBytes).value();
  const DeviceBuffer staged = DeviceBuffer::allocate(bytes + slots.bytes()).value();
  const CudaStream stream = CudaStream::create().value();
  kernels::PlaceRowsArgs args{.rows = rows.data(),
                              .slots = slots.as<SlotId>(),
                              .arena = arena.data(),
                              .slot_bytes = kSlotBytes,
                              .row_count = row_count};
  const Times direct = time_calls(stream.get(), is_smoke ? 1 : 10, 2, [&](std::int32_t) {
    return kernels::place_rows_cuda(args, stream.get());
  });
  args.rows = staged.data();
  args.slots = reinterpret_cast<const SlotId*>(staged.data() + bytes);
  const Times copied = time_calls(stream.get(), is_smoke ? 1 : 10, 2, [&](std::int32_t) {
    PLE_TRY(copy_async(staged.data(), rows.data(), bytes, stream.get()));
    PLE_TRY(copy_async(staged.data() + bytes, slots.data(), slots.bytes(), stream.get()));
    return kernels::place_rows_cuda(args, stream.get());
  });
  fmt::print(
      "place {} rows of {} B: read in place {:.0f} us, {:.1f} GB/s; copied first {:.0f} us, "
      "{:.1f} GB/s\n",
      row_count, kSlotBytes, direct.median_us,
      static_cast<double>(bytes) / direct.median_us / 1000.0, copied.median_us,
      static_cast<double>(bytes) / copied.median_us / 1000.0);
}

int run(int argc, char** argv) {
  if (cuda_device_count() == 0) {
    fmt::print(stderr, "no CUDA device\n");
    return 77;
  }
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const bool is_smoke = !arguments.empty() && arguments[0] == "--smoke";
  const CudaTraits traits = cuda_traits(0).value();
  fmt::print("{}, {} multiprocessors, L2 {} MB\n", traits.name, traits.multiprocessor_count,
             traits.l2_bytes >> 20);
  print_copy_rate(is_smoke);
  bench_place(is_smoke);
  const PleProblem problem = make_problem(is_smoke ? 4096 : 1U << 19);
  for (const BenchCase& bench : kCases) {
    const std::int32_t tokens = bench.token_count * bench.sequence_count;
    const bool is_asked =
        std::count(arguments.begin(), arguments.end(), std::to_string(tokens)) > 0;
    if (is_smoke ? tokens <= 64 : arguments.empty() || is_asked) {
      bench_case(problem, bench, is_smoke);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ple::test

int main(int argc, char** argv) { return ple::test::run(argc, argv); }
