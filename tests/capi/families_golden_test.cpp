// The layers of every family but qwen4_exp against the outputs of their public references: in every
// chunking, with every cache, on one thread and two, on any device. The bits are the same in all of
// them.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "support/family_layer.hpp"
#include "support/test_device.hpp"

namespace ple::test {
namespace {

// An output of a reference, and how the library is asked for it.
struct Golden {
  std::string tag;  // "f32", "bf16"
  std::string output;
  ple_arithmetic arithmetic = PLE_ARITHMETIC_FLOAT32;
  ple_projection projection = PLE_PROJECTION_AUTO;
  std::size_t differing_max = 0;  // elements, where every bit is compared
  bool is_fp8_in_f32 = false;     // bf16 keys and values in f32 sums

  // Relative, where bits are not compared. On another device than the CPU a rounded result may fall
  // on the other side of an edge.
  double error_max() const {
    if (kHasCpuSums) return 1e-5;
    return is_rounded() ? 4e-3 : is_fp8_in_f32 ? 5e-4 : 1e-5;
  }

  bool is_rounded() const { return arithmetic == PLE_ARITHMETIC_REFERENCE; }
};

std::vector<Golden> goldens_of(const FamilyLayer& layer) {
  const std::string prefix = layer.prefix();
  switch (layer.family()) {
    case PLE_FAMILY_ENGRAM_V41:
      // The order of the gate's f32 sums moves a result or two over the edge between two bf16.
      return {
          {"f32", prefix + "deq_f32.out_f32", PLE_ARITHMETIC_FLOAT32, PLE_PROJECTION_DEQUANTIZED},
          {"f32", prefix + "fp8.out_f32", PLE_ARITHMETIC_FLOAT32, PLE_PROJECTION_AUTO, 0, true},
          {"bf16", prefix + "fp8.out_bf16", PLE_ARITHMETIC_REFERENCE, PLE_PROJECTION_FP8, 2},
          {"bf16", prefix + "deq_bf16.out_bf16", PLE_ARITHMETIC_REFERENCE,
           PLE_PROJECTION_DEQUANTIZED, 2}};
    case PLE_FAMILY_ENGRAM_DEMO:
      return {{"f32", prefix + "f32.out"},
              {"bf16", prefix + "bf16.out", PLE_ARITHMETIC_REFERENCE, PLE_PROJECTION_AUTO, 1}};
    case PLE_FAMILY_LONGCAT:
      return {{"f32", "f32.out"}, {"bf16", "bf16.out", PLE_ARITHMETIC_REFERENCE}};
    default:
      return {{"f32", "f32.per_layer_inputs"},
              {"bf16", "bf16.per_layer_inputs", PLE_ARITHMETIC_REFERENCE}};
  }
}

// Both golden sequences side by side, chunk tokens of each in a step.
std::vector<float> run_golden(const FamilyLayer& layer, const Golden& golden,
                              pleiades::EngineOptions options, std::size_t chunk) {
  options.device = test_device();
  auto engine = pleiades::Engine::open(layer.model(), options);
  const auto tokens = layer.golden_tokens();
  const auto input = layer.golden_input(golden.tag);
  const std::size_t length = tokens.size() / 2;
  const auto in = static_cast<std::size_t>(layer.info().input_elements);
  const auto out = static_cast<std::size_t>(layer.info().output_elements);
  std::vector<float> output(tokens.size() * out);
  pleiades::Sequence sequences[2] = {pleiades::Sequence(engine), pleiades::Sequence(engine)};
  pleiades::Step step(engine);
  for (std::size_t at = 0; at < length; at += chunk) {
    const std::size_t count = std::min(chunk, length - at);
    std::vector<float> part;
    std::vector<pleiades::Part> parts;
    for (std::size_t s = 0; s < 2; ++s) {
      const std::size_t begin = s * length + at;
      parts.push_back({sequences[s], std::span(tokens).subspan(begin, count)});
      if (in > 0) {
        const auto from = input.begin() + static_cast<std::ptrdiff_t>(begin * in);
        part.insert(part.end(), from, from + static_cast<std::ptrdiff_t>(count * in));
      }
    }
    step.stage(parts);
    const auto result = run_staged(step, layer.info(), part, 2 * count,
                                   golden.is_rounded() ? PLE_BF16 : PLE_F32, layer.golden_mode());
    step.commit();
    for (std::size_t s = 0; s < 2; ++s) {
      std::copy_n(result.begin() + static_cast<std::ptrdiff_t>(s * count * out), count * out,
                  output.begin() + static_cast<std::ptrdiff_t>((s * length + at) * out));
    }
  }
  return output;
}

double relative_error(const std::vector<float>& got, const std::vector<float>& wanted) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double difference = static_cast<double>(got[i]) - static_cast<double>(wanted[i]);
    error += difference * difference;
    norm += static_cast<double>(wanted[i]) * static_cast<double>(wanted[i]);
  }
  return std::sqrt(error / norm);
}

class FamilyGolden : public testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override { skip_without_device(); }

  const FamilyLayer layer_{GetParam()};
};

TEST_P(FamilyGolden, OutputsAreTheReferences) {
  for (const Golden& golden : goldens_of(layer_)) {
    SCOPED_TRACE(golden.output);
    const auto wanted = layer_.golden(golden.output);
    const auto got = run_golden(
        layer_, golden, {.arithmetic = golden.arithmetic, .projection = golden.projection}, 40);
    ASSERT_EQ(got.size(), wanted.size());
    if (golden.is_rounded() && kHasCpuSums) {
      std::size_t differing = 0;
      for (std::size_t i = 0; i < got.size(); ++i) differing += got[i] != wanted[i] ? 1 : 0;
      EXPECT_LE(differing, golden.differing_max);
    } else {
      EXPECT_LT(relative_error(got, wanted), golden.error_max());
    }
  }
}

TEST_P(FamilyGolden, ChunksCachesAndThreadsGiveTheSameBits) {
  for (const Golden& golden : goldens_of(layer_)) {
    SCOPED_TRACE(golden.output);
    pleiades::EngineOptions options{.arithmetic = golden.arithmetic,
                                    .arena = PLE_ARENA_RESIDENT,
                                    .projection = golden.projection,
                                    .thread_count = 1};
    const auto whole = run_golden(layer_, golden, options, 40);
    options.thread_count = 2;
    for (const std::size_t chunk : {1, 2, 3, 7, 40}) {
      for (const std::uint64_t cache_bytes : {0, 20000, 1 << 30}) {
        options.arena = PLE_ARENA_AUTO;
        options.cache_bytes = cache_bytes;
        const auto got = run_golden(layer_, golden, options, chunk);
        EXPECT_EQ(std::memcmp(got.data(), whole.data(), whole.size() * sizeof(float)), 0)
            << "chunk " << chunk << ", " << cache_bytes << " bytes";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGolden, testing::ValuesIn(kFamilyCases));

}  // namespace
}  // namespace ple::test
