#include "kernels/ple_layer_cuda.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "kernels/cpu_layer.hpp"
#include "kernels/cuda_layer.hpp"
#include "support/ple_cases.hpp"
#include "support/ple_oracle.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using kernels::HighwayType;
using kernels::OutputMode;

std::vector<PleSequence> make_sequences(const PleProblem& problem,
                                        const std::vector<std::int32_t>& lengths,
                                        std::uint64_t seed) {
  std::vector<PleSequence> sequences;
  for (const std::int32_t length : lengths) {
    sequences.push_back(make_ple_sequence(problem, length, seed + sequences.size()));
  }
  return sequences;
}

double tolerance_of(Arithmetic arithmetic, HighwayType type) {
  if (type == HighwayType::bf16) return 4e-3;  // one rounding of the output
  return arithmetic == Arithmetic::float32 ? 5e-6 : arithmetic == Arithmetic::mixed ? 2e-3 : 1.5e-3;
}

// Cases of the shared list, and some as wide and as long as every form of the product needs.
std::vector<PleCase> cuda_cases() {
  std::vector<PleCase> cases = ple_cases();
  const kernels::PleShape wide = ple_shape(160, 4, 16, 4, 3);
  cases.push_back({"OneToken", wide, RowFormat::bf16, 40, {1}});
  cases.push_back({"EightTokens", wide, RowFormat::bf16, 40, {5, 3}});
  cases.push_back({"PackedPanel", wide, RowFormat::bf16, 40, {33}});
  cases.push_back({"FewTokens", wide, RowFormat::bf16, 40, {1, 30, 2, 7}});
  cases.push_back({"SomeTokens", wide, RowFormat::bf16, 40, {70, 1, 100, 3}});
  // More tiles than an H200 has clusters, of fewer chunks than there are stages.
  kernels::PleShape wider = wide;
  wider.hidden = 2832;
  cases.push_back({"TilesInTurns", wider, RowFormat::bf16, 8, {70, 1, 29, 3}});
  cases.push_back({"TwoTaps", ple_shape(16, 2, 2, 2, 3), RowFormat::bf16, 8, {5, 2}});
  cases.push_back({"ThreeTaps", ple_shape(16, 2, 2, 3, 2), RowFormat::bf16, 8, {70, 20}});
  cases.push_back({"LongTwoTaps", ple_shape(16, 2, 2, 2, 3), RowFormat::bf16, 8, {530}});
  cases.push_back({"ManyTokens", wide, RowFormat::fp8_e4m3, 40, {300, 1, 211, 28, 77}});
  cases.push_back({"ManyLongTokens", wide, RowFormat::bf16, 8, {2305, 1, 70}});
  cases.push_back({"Released", released_ple_shape(), RowFormat::bf16, 160, {12, 1, 3}});
  cases.push_back({"ReleasedToken", released_ple_shape(), RowFormat::bf16, 160, {1}});
  cases.push_back({"ReleasedFewTokens", released_ple_shape(), RowFormat::bf16, 160, {5, 2}});
  return cases;
}

class PleLayerCudaCases
    : public testing::TestWithParam<std::tuple<PleCase, Arithmetic, HighwayType, bool>> {
 protected:
  void SetUp() override { skip_without_gpu(); }
};

TEST_P(PleLayerCudaCases, AgreeWithFloat64) {
  const auto& [layer_case, arithmetic, highway_type, has_wgmma] = GetParam();
  const std::uint64_t seed = Random().bits();
  const PleProblem problem = make_ple_problem(layer_case.shape, layer_case.format,
                                              layer_case.row_dim, seed, layer_case.has_bias);
  if (const Status status = kernels::check_ple_shape_cuda(problem.shape); !status.is_ok()) {
    EXPECT_EQ(status.code(), StatusCode::unsupported);
    return;
  }
  const auto sequences = make_sequences(problem, layer_case.sequence_lengths, seed);
  CudaLayer layer(problem, sequences,
                  {.arithmetic = arithmetic, .highway_type = highway_type, .has_wgmma = has_wgmma});
  layer.step_rest();
  const double bound = tolerance_of(arithmetic, highway_type);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].token_count == 0) continue;
    EXPECT_LT(error_to_float64(layer.output(i), problem, arithmetic,
                               embeddings_of(problem, sequences[i]), sequences[i].highway, bound),
              bound);
  }
}

std::string name_of(
    const testing::TestParamInfo<std::tuple<PleCase, Arithmetic, HighwayType, bool>>& info) {
  const char* const names[] = {"Float32", "Mixed", "Reference"};
  const auto& [layer_case, arithmetic, highway_type, has_wgmma] = info.param;
  return layer_case.name + names[static_cast<int>(arithmetic)] +
         (highway_type == HighwayType::f32 ? "F32" : "Bf16") + (has_wgmma ? "Wgmma" : "Mma");
}

INSTANTIATE_TEST_SUITE_P(
    All, PleLayerCudaCases,
    testing::Combine(testing::ValuesIn(cuda_cases()),
                     testing::Values(Arithmetic::float32, Arithmetic::mixed, Arithmetic::reference),
                     testing::Values(HighwayType::f32, HighwayType::bf16), testing::Bool()),
    name_of);

class PleLayerCuda : public testing::TestWithParam<std::tuple<Arithmetic, bool>> {
 protected:
  static constexpr kernels::PleShape kShape = ple_shape(160, 4, 4, 4, 3);
  void SetUp() override { skip_without_gpu(); }
  Arithmetic arithmetic() const { return std::get<0>(GetParam()); }
  CudaLayer::Options options() const {
    return {.arithmetic = arithmetic(), .has_wgmma = std::get<1>(GetParam())};
  }
};

TEST_P(PleLayerCuda, BitsOfATokenDoNotDependOnTheStepsAroundIt) {
  Random random;
  const PleProblem problem = make_ple_problem(kShape, RowFormat::bf16, 160, random.bits());
  const auto sequences = make_sequences(problem, {700, 90, 33}, random.bits());
  CudaLayer whole(problem, sequences, options());
  whole.step_rest();
  for (const std::int32_t capacity : {1, 8, 64, 200, 900}) {
    // The sequences one by one in random pieces, through every form.
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const std::vector<PleSequence> alone{sequences[i]};
      CudaLayer::Options piecewise = options();
      piecewise.token_capacity = capacity;
      CudaLayer layer(problem, alone, piecewise);
      while (layer.state(0).position < sequences[i].token_count) {
        const auto left =
            static_cast<std::int32_t>(sequences[i].token_count - layer.state(0).position);
        const auto most = std::min(left, capacity);
        layer.step({{0, static_cast<std::int32_t>(random.between(1, most))}});
      }
      ASSERT_EQ(layer.output(0), whole.output(i)) << "sequence " << i << " capacity " << capacity;
    }
  }
}

TEST_P(PleLayerCuda, AStepCanBeRunAgain) {
  Random random;
  const PleProblem problem = make_ple_problem(kShape, RowFormat::bf16, 40, random.bits());
  const auto sequences = make_sequences(problem, {30, 20}, random.bits());
  CudaLayer layer(problem, sequences, options());
  layer.step({{0, 12}, {1, 3}});
  layer.step({{1, 4}, {0, 5}}, false);
  const std::vector<float> first = layer.output(0);
  layer.step({{1, 4}, {0, 5}}, false);
  EXPECT_EQ(layer.output(0), first);
}

// Of a step of entry_count tokens, which are within the window.
void expect_rebuilt(CudaLayer::Options options, std::int32_t entry_count) {
  SCOPED_TRACE(testing::Message() << entry_count << " entries");
  Random random;
  const PleProblem problem =
      make_ple_problem(ple_shape(160, 4, 4, 4, 100), RowFormat::bf16, 40, random.bits());
  const auto sequences = make_sequences(problem, {entry_count}, random.bits());
  options.draft_count = problem.shape.window();
  CudaLayer layer(problem, sequences, options);
  layer.step_rest();
  auto ring = to_host<std::byte>(layer.state(0).ring);

  const std::int64_t value_bytes =
      kernels::PleRing::value_bytes(problem.shape, options.arithmetic, layer.ring_length());
  const std::int32_t streams = problem.shape.stream_count;
  std::vector<float> gamma;
  for (std::int32_t entry = 0; entry < entry_count; ++entry) {
    const auto* gates = reinterpret_cast<const float*>(ring.data() + value_bytes);
    gamma.insert(gamma.end(), gates + entry * 2 * streams, gates + (entry * 2 + 1) * streams);
  }
  const DeviceBuffer gammas = to_device(gamma);
  const DeviceBuffer rebuilt = to_device(std::vector<std::byte>(ring.size(), std::byte{0xFF}));
  PinnedBuffer block =
      PinnedBuffer::allocate(kernels::PleStepBlock::bytes(problem.shape, entry_count, 0)).value();
  const kernels::PleStepView step =
      kernels::PleStepBlock::view(block.data(), problem.shape, entry_count, 0);
  *step.counts = {entry_count, 0, {}};
  std::copy(sequences[0].slots.begin(), sequences[0].slots.end(), step.slots);
  expect_ok(kernels::ple_rebuild_ring_cuda({.shape = problem.shape,
                                            .arithmetic = options.arithmetic,
                                            .traits = layer.traits(),
                                            .weights = layer.weights(),
                                            .rows = layer.rows(),
                                            .step = block.data(),
                                            .gamma = gammas.as<float>(),
                                            .ring = rebuilt.data(),
                                            .scratch = layer.scratch(),
                                            .ring_length = layer.ring_length(),
                                            .entry_begin = 0,
                                            .token_capacity = entry_count},
                                           layer.stream().get()));
  EXPECT_EQ(to_host<std::byte>(rebuilt), ring);
}

TEST_P(PleLayerCuda, RebuiltRingEntriesHaveTheBitsOfTheStep) {
  for (const std::int32_t entry_count : {1, 8, 33, 40, 70, 300}) {
    expect_rebuilt(options(), entry_count);
  }
}

// Fewer multiprocessors: a thread block has more slices, or several tiles.
TEST_P(PleLayerCuda, BitsDoNotDependOnTheMultiprocessors) {
  Random random;
  const PleProblem problem = make_ple_problem(kShape, RowFormat::bf16, 160, random.bits());
  for (const std::int32_t token_count : {1, 8, 64, 200, 300}) {
    const auto sequences = make_sequences(problem, {token_count}, random.bits());
    CudaLayer whole(problem, sequences, options());
    whole.step_rest();
    for (const std::int32_t multiprocessors : {2, 3, 7, 25}) {
      CudaLayer::Options fewer = options();
      fewer.multiprocessor_count = multiprocessors;
      CudaLayer layer(problem, sequences, fewer);
      layer.step_rest();
      EXPECT_EQ(layer.output(0), whole.output(0))
          << token_count << " tokens on " << multiprocessors << " multiprocessors";
    }
  }
}

// On fewer multiprocessors a thread block takes more tokens, and memory for them.
TEST_P(PleLayerCuda, ThreadsLaunchAKernelWithDifferentSharedMemory) {
  constexpr int kLaunches = 2000;
  Random random;
  const PleProblem problem = make_ple_problem(kShape, RowFormat::bf16, 160, random.bits());
  const auto sequences = make_sequences(problem, {64}, random.bits());
  const auto launch_often = [&](CudaLayer& layer) {
    for (int i = 0; i < kLaunches; ++i) ASSERT_NO_FATAL_FAILURE(expect_ok(layer.enqueue(nullptr)));
    expect_ok(layer.stream().synchronize());
  };
  std::vector<std::unique_ptr<CudaLayer>> layers;
  for (const std::int32_t multiprocessors : {4, 8}) {
    CudaLayer::Options fewer = options();
    fewer.multiprocessor_count = multiprocessors;
    layers.push_back(std::make_unique<CudaLayer>(problem, sequences, fewer));
    layers.back()->step_rest();
  }
  std::thread other([&] { launch_often(*layers[0]); });
  launch_often(*layers[1]);
  other.join();
}

INSTANTIATE_TEST_SUITE_P(All, PleLayerCuda,
                         testing::Combine(testing::Values(Arithmetic::float32, Arithmetic::mixed,
                                                          Arithmetic::reference),
                                          testing::Bool()));

constexpr Arithmetic kArithmetics[] = {Arithmetic::float32, Arithmetic::mixed,
                                       Arithmetic::reference};

// Of the released model, with a staging area that holds all of its rows.
TEST(PleScratchCuda, AStepTakesFewerThan32KiBForAToken) {
  const kernels::PleShape shape = released_ple_shape();
  constexpr std::size_t kStagedBytes = 16 * 320;
  for (const Arithmetic arithmetic : kArithmetics) {
    for (const std::int32_t tokens :
         {64, 100, 128, 129, 144, 200, 256, 257, 320, 512, 1000, 8192, 65536}) {
      const std::size_t bytes = kernels::ple_layer_scratch_bytes_cuda(shape, arithmetic, tokens) +
                                kernels::PleStepBlock::bytes(shape, tokens, tokens) +
                                static_cast<std::size_t>(tokens) * kStagedBytes;
      EXPECT_LT(bytes, static_cast<std::size_t>(tokens) << 15)
          << tokens << " tokens, arithmetic " << static_cast<int>(arithmetic);
    }
  }
}

TEST(PleScratchCuda, IsEnoughForEveryShorterStep) {
  const kernels::PleShape shape = released_ple_shape();
  for (const Arithmetic arithmetic : kArithmetics) {
    std::size_t before = 0;
    for (std::int32_t tokens = 1; tokens <= 1024; ++tokens) {
      const std::size_t bytes = kernels::ple_layer_scratch_bytes_cuda(shape, arithmetic, tokens);
      ASSERT_GE(bytes, before) << tokens << " tokens, arithmetic " << static_cast<int>(arithmetic);
      before = bytes;
    }
  }
}

TEST(PlaceRowsCuda, PutsEveryRowIntoItsSlot) {
  skip_without_gpu();
  if (IsSkipped()) return;
  Random random;
  constexpr std::uint32_t kSlotBytes = 48;
  constexpr std::size_t kRowCount = 700;
  std::vector<std::byte> rows(kRowCount * kSlotBytes);
  for (std::byte& byte : rows) byte = static_cast<std::byte>(random.bits());
  std::vector<SlotId> slots(kRowCount);
  for (std::size_t i = 0; i < slots.size(); ++i) slots[i] = static_cast<SlotId>(2 * i);
  std::shuffle(slots.begin(), slots.end(), random.engine());
  const DeviceBuffer staged = to_device(rows);
  const DeviceBuffer slot_list = to_device(slots);
  const DeviceBuffer arena =
      to_device(std::vector<std::byte>(2 * kRowCount * kSlotBytes, std::byte{0x5A}));
  const CudaStream stream = CudaStream::create().value();
  expect_ok(kernels::place_rows_cuda({.rows = staged.data(),
                                      .slots = slot_list.as<SlotId>(),
                                      .arena = arena.data(),
                                      .slot_bytes = kSlotBytes,
                                      .row_count = kRowCount},
                                     stream.get()));
  const auto placed = to_host<std::byte>(arena);
  std::vector<std::byte> expected(placed.size(), std::byte{0x5A});
  for (std::size_t i = 0; i < slots.size(); ++i) {
    std::copy_n(rows.begin() + static_cast<std::ptrdiff_t>(i * kSlotBytes), kSlotBytes,
                expected.begin() + static_cast<std::ptrdiff_t>(slots[i]) * kSlotBytes);
  }
  EXPECT_EQ(placed, expected);
}

}  // namespace
}  // namespace ple::test
