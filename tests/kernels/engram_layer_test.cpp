#include "kernels/engram_layer_cpu.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/number_formats.hpp"
#include "kernels/gate.hpp"
#include "support/golden_tensor.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kBlock = 32;

// Nearest of all E4M3 codes, ties to the one with an even code.
float nearest_e4m3(float value) {
  float best = 0;
  for (int code = 0; code < 0x7F; ++code) {
    const float candidate = std::copysign(e4m3_to_f32(static_cast<std::uint8_t>(code)), value);
    const float distance = std::fabs(candidate - value);
    const float best_distance = std::fabs(best - value);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) best = candidate;
  }
  return best;
}

// The block as DeepSeek's code quantises it, element by element.
std::array<std::uint16_t, kBlock> quantized(const std::array<std::uint16_t, kBlock>& block) {
  float most = 1e-4F;
  for (const std::uint16_t bits : block) most = std::max(most, std::fabs(bf16_to_f32(bits)));
  const double ratio = most * (1.0F / 448.0F);
  const auto scale = static_cast<float>(std::exp2(std::ceil(std::log2(ratio))));
  std::array<std::uint16_t, kBlock> out;
  for (std::size_t i = 0; i < kBlock; ++i) {
    out[i] = f32_to_bf16(nearest_e4m3(bf16_to_f32(block[i]) / scale) * scale);
  }
  return out;
}

void expect_quantized(const std::array<std::uint16_t, kBlock>& block) {
  auto got = block;
  kernels::quantize_e4m3_blocks(got.data(), kBlock);
  const auto wanted = quantized(block);
  for (std::size_t i = 0; i < kBlock; ++i) {
    EXPECT_EQ(bf16_to_f32(got[i]), bf16_to_f32(wanted[i])) << "of " << bf16_to_f32(block[i]);
  }
}

TEST(QuantizeE4m3Blocks, KeepsTheNearestCodes) {
  Random random;
  for (int round = 0; round < 2000; ++round) {
    // Exponents around a middle that is anywhere from below the floor to large.
    const std::int64_t middle = random.between(90, 140);
    std::array<std::uint16_t, kBlock> block;
    for (std::uint16_t& bits : block) {
      bits = static_cast<std::uint16_t>(
          (random.bits() & 0x807F) |
          static_cast<std::uint64_t>(random.between(std::max<std::int64_t>(middle - 14, 1), middle))
              << 7);
    }
    if (random.chance(0.2)) block.fill(static_cast<std::uint16_t>(random.bits() & 0x8000));
    expect_quantized(block);
  }
}

TEST(QuantizeE4m3Blocks, TakesTheScaleAtOrAboveTheLargestValue) {
  // 448 is the largest code: at it the scale is 1, above it 2.
  for (const float most : {448.0F, 450.0F, 446.0F, 7.0F * 0x1p-30F, 1e-4F, 1.01e-4F}) {
    std::array<std::uint16_t, kBlock> block{};
    for (std::size_t i = 0; i < kBlock; ++i) {
      block[i] = f32_to_bf16(most * static_cast<float>(i) / 31.0F);
    }
    block[5] = f32_to_bf16(most);
    expect_quantized(block);
  }
}

TEST(SignedGate, OfZeroHasASign) {
  EXPECT_FLOAT_EQ(kernels::signed_gate_of_score(0.0F), 0.50025F);
  EXPECT_FLOAT_EQ(kernels::signed_gate_of_score(-0.0F), 0.49975F);
  EXPECT_EQ(kernels::signed_gate_of_score(1e-40F), kernels::signed_gate_of_score(0.0F));
  EXPECT_EQ(kernels::signed_gate_of_score(INFINITY), 1.0F);
  EXPECT_EQ(kernels::signed_gate_of_score(-INFINITY), 0.0F);
  EXPECT_TRUE(std::isnan(kernels::signed_gate_of_score(NAN)));
}

TEST(SignedGate, RisesWithTheScoreAndIsOdd) {
  float last = 0.0F;
  for (float score = -100.0F; score <= 100.0F; score += 0.37F) {
    const float gate = kernels::signed_gate_of_score(score);
    EXPECT_GE(gate, last);
    EXPECT_NEAR(gate + kernels::signed_gate_of_score(-score), 1.0F, 1e-6F);
    last = gate;
  }
}

// E4M3 codes with a scale for each 32x32 block, as bf16.
std::vector<std::uint16_t> dequantized(const std::vector<std::uint8_t>& codes,
                                       const std::vector<std::uint8_t>& scales, std::size_t inner) {
  std::vector<std::uint16_t> values(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const std::size_t block = i / inner / 32 * (inner / 32) + i % inner / 32;
    values[i] = f32_to_bf16(e4m3_to_f32(codes[i]) * e8m0_to_f32(scales[block]));
  }
  return values;
}

TEST(EngramProduct, IsTheOfficialFp8ProductBitForBit) {
  const auto pool = ThreadPool::create(1).value();
  struct Case {
    const char* model;
    const char* layer;
    std::size_t inner;
    std::size_t rows;
  };
  for (const Case& c : {Case{"tiny_hc4", "1", 192, 320}, Case{"tiny_hc4", "14", 192, 320},
                        Case{"tiny_hc2", "0", 384, 384}, Case{"tiny_hc2", "3", 384, 384},
                        Case{"tiny_hc2", "7", 384, 384}}) {
    const std::string golden = std::string("golden/engram_v41/") + c.model;
    const std::string io = golden + "_io.safetensors";
    const std::string wkv = std::string("layers.") + c.layer + ".engram.wkv.";
    const auto weights = dequantized(
        golden_tensor<std::uint8_t>(golden + "/model.safetensors", wkv + "weight"),
        golden_tensor<std::uint8_t>(golden + "/model.safetensors", wkv + "scale"), c.inner);
    kernels::PackedMatrix matrix =
        kernels::PackedMatrix::allocate({.group_rows = static_cast<std::int32_t>(c.rows),
                                         .inner_count = static_cast<std::int32_t>(c.inner),
                                         .block_count = 32})
            .value();
    ASSERT_TRUE(matrix.pack_rows(0, static_cast<std::int64_t>(c.rows), weights.data()).is_ok());
    auto x = golden_tensor<std::uint16_t>(io, std::string("layer") + c.layer + ".rows");
    const auto kv = golden_tensor<std::uint16_t>(io, std::string("layer") + c.layer + ".fp8.kv");
    kernels::quantize_e4m3_blocks(x.data(), std::ssize(x));
    std::vector<float> y(kv.size());
    ASSERT_EQ(kv.size(), x.size() / c.inner * c.rows);
    kernels::project(
        matrix,
        kernels::Activations<std::uint16_t>{x.data(), static_cast<std::int64_t>(c.inner),
                                            static_cast<std::int32_t>(x.size() / c.inner)},
        y.data(), *pool);
    std::size_t differing = 0;
    for (std::size_t i = 0; i < kv.size(); ++i) differing += f32_to_bf16(y[i]) != kv[i] ? 1 : 0;
    EXPECT_EQ(differing, 0) << c.model << " layer " << c.layer << " of " << kv.size();
  }
}

}  // namespace
}  // namespace ple::test
