#include "kernels/projection.hpp"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/number_formats.hpp"
#include "base/thread_pool.hpp"
#include "support/random.hpp"

namespace ple::kernels {
namespace {

using Bits = std::vector<std::uint16_t>;

Bits random_bits(test::Random& random, std::int64_t count) {
  Bits bits(static_cast<std::size_t>(count));
  for (auto& value : bits) {
    value = f32_to_bf16(static_cast<float>(random.between(-1000, 1000)) * 0.001F);
  }
  return bits;
}

struct Problem {
  PackedMatrix::Shape shape;
  Bits w;
  PackedMatrix matrix;

  Problem(const PackedMatrix::Shape& matrix_shape, test::Random& random) : shape(matrix_shape) {
    matrix = PackedMatrix::allocate(shape).value();
    w = random_bits(random, matrix.row_count() * shape.inner_count);
    EXPECT_TRUE(matrix.pack_rows(0, matrix.row_count(), w.data()).is_ok());
  }

  std::int64_t stride() const { return 2 * std::int64_t{matrix.pair_count()}; }

  // Activations in the padded form that a product takes.
  Bits random_x(test::Random& random, std::int32_t token_count) const {
    Bits x = random_bits(random, token_count * stride());
    if (stride() != shape.inner_count) {
      for (std::int32_t t = 0; t < token_count; ++t) {
        x[static_cast<std::size_t>((t + 1) * stride() - 1)] = 0;
      }
    }
    return x;
  }

  double expected(const std::vector<float>& x, std::int64_t token, std::int64_t row) const {
    double sum = 0.0;
    for (std::int32_t k = 0; k < shape.inner_count; ++k) {
      sum += static_cast<double>(x[static_cast<std::size_t>(token * stride() + k)]) *
             bf16_to_f32(w[static_cast<std::size_t>(row * shape.inner_count + k)]);
    }
    return sum;
  }
};

std::vector<float> widened(const Bits& bits) {
  std::vector<float> values;
  for (const auto value : bits) values.push_back(bf16_to_f32(value));
  return values;
}

// Random codes, some of them without an exponent, with scales near a middle one.
struct E4m3Problem {
  std::vector<std::uint8_t> codes, scales;
  Bits decoded;

  E4m3Problem(const PackedMatrix& matrix, test::Random& random, std::int64_t middle_scale,
              std::int64_t spread) {
    const std::int64_t width = matrix.shape().inner_count;
    const std::int64_t count = matrix.row_count() * width;
    for (std::int64_t i = 0; i < count / (kScaleBlock * kScaleBlock); ++i) {
      scales.push_back(static_cast<std::uint8_t>(middle_scale + random.between(-spread, spread)));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const auto magnitude = random.between(0, random.chance(0.2) ? 7 : 0x7E);
      codes.push_back(static_cast<std::uint8_t>(magnitude | (random.chance(0.5) ? 0x80 : 0)));
      const std::int64_t block =
          i / width / kScaleBlock * (width / kScaleBlock) + i % width / kScaleBlock;
      decoded.push_back(f32_to_bf16(e4m3_to_f32(codes.back()) *
                                    e8m0_to_f32(scales[static_cast<std::size_t>(block)])));
    }
  }
};

template <class Element>
std::vector<float> product_of(const Problem& problem, const std::vector<Element>& x,
                              std::int32_t thread_count = 1) {
  const auto pool = ThreadPool::create(thread_count).value();
  const auto token_count =
      static_cast<std::int32_t>(static_cast<std::int64_t>(x.size()) / problem.stride());
  std::vector<float> y(static_cast<std::size_t>(token_count * problem.matrix.row_count()));
  project(problem.matrix, Activations<Element>{x.data(), problem.stride(), token_count}, y.data(),
          *pool);
  return y;
}

const PackedMatrix::Shape kShapes[] = {{1, 64, 64}, {1, 1, 1},     {3, 37, 51},     {4, 65, 130},
                                       {2, 128, 7}, {1, 200, 256}, {2, 70, 90, 32}, {1, 64, 51, 4}};

TEST(Projection, AgreesWithFloat64) {
  test::Random random;
  for (const auto& shape : kShapes) {
    const Problem problem(shape, random);
    const std::vector<float> x = widened(problem.random_x(random, 13));
    const std::vector<float> y = product_of(problem, x);
    for (std::int64_t t = 0; t < 13; ++t) {
      for (std::int64_t row = 0; row < problem.matrix.row_count(); ++row) {
        ASSERT_NEAR(y[static_cast<std::size_t>(t * problem.matrix.row_count() + row)],
                    problem.expected(x, t, row), 1e-6 * shape.inner_count)
            << "token " << t << " row " << row;
      }
    }
  }
}

// One order of summation: bf16 activations give the bits of the same values in f32.
TEST(Projection, BothActivationTypesGiveTheSameBits) {
  test::Random random;
  for (const auto& shape : kShapes) {
    const Problem problem(shape, random);
    const Bits x = problem.random_x(random, 9);
    EXPECT_EQ(product_of(problem, x), product_of(problem, widened(x)));
  }
}

TEST(Projection, TokensDoNotSeeEachOther) {
  test::Random random;
  for (const auto& shape : kShapes) {
    const Problem problem(shape, random);
    const Bits x = problem.random_x(random, 101);
    const std::vector<float> all = product_of(problem, x, 3);
    for (const std::int32_t begin : {0, 1, 46, 97}) {
      for (const std::int32_t count : {1, 2, 3, 4}) {
        const Bits part(x.begin() + begin * problem.stride(),
                        x.begin() + (begin + count) * problem.stride());
        const std::vector<float> alone = product_of(problem, part);
        const auto offset = all.begin() + begin * problem.matrix.row_count();
        ASSERT_TRUE(std::equal(alone.begin(), alone.end(), offset)) << begin << " " << count;
      }
    }
  }
}

// Every vector width that this processor has sums in the same order.
TEST(Projection, EveryTargetGivesTheSameBits) {
  test::Random random;
  for (const auto& shape : {PackedMatrix::Shape{2, 70, 90}, PackedMatrix::Shape{2, 70, 90, 32}}) {
    const Problem problem(shape, random);
    const std::vector<float> x = widened(problem.random_x(random, 11));
    const std::vector<float> best = product_of(problem, x);
    for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      EXPECT_EQ(product_of(problem, x), best) << hwy::TargetName(target);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

// Decoding takes no part in the sums, on any vector width.
TEST(Projection, E4m3CodesGiveTheBitsOfTheirValues) {
  test::Random random;
  for (const std::int32_t block : {0, 32, 64}) {
    for (const std::int64_t scale : {10 + 3, 120, 220}) {
      PackedMatrix::Shape shape{2, 96, 32 * 9, block};
      Problem values(shape, random);
      Problem codes(shape, random);
      shape.is_e4m3 = true;
      codes.matrix = PackedMatrix::allocate(shape).value();
      const E4m3Problem e4m3(codes.matrix, random, scale, 3);
      ASSERT_TRUE(
          values.matrix.pack_rows(0, values.matrix.row_count(), e4m3.decoded.data()).is_ok());
      // The last row by itself.
      const std::int64_t rows = values.matrix.row_count() - 1;
      const std::uint8_t* const scales = e4m3.scales.data();
      ASSERT_TRUE(codes.matrix.pack_e4m3_rows(0, rows, e4m3.codes.data(), scales).is_ok());
      const std::uint8_t* const last = e4m3.codes.data() + rows * shape.inner_count;
      ASSERT_TRUE(codes.matrix.pack_e4m3_rows(rows, 1, last, scales).is_ok());
      const Bits x = values.random_x(random, 203);
      ASSERT_EQ(product_of(codes, x, 2), product_of(values, x))
          << "blocks of " << block << ", scale " << scale;
      for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
        hwy::SetSupportedTargetsForTest(target);
        EXPECT_EQ(product_of(codes, widened(x)), product_of(values, widened(x)))
            << hwy::TargetName(target);
      }
      hwy::SetSupportedTargetsForTest(0);
    }
  }
}

TEST(PackedMatrix, RefusesCodesThatAreNoNormalNumbers) {
  PackedMatrix matrix = PackedMatrix::allocate({1, 32, 32, 0, false, true}).value();
  std::vector<std::uint8_t> codes(32 * 32, 0x38);
  std::vector<std::uint8_t> scales = {120};
  EXPECT_TRUE(matrix.pack_e4m3_rows(0, 32, codes.data(), scales.data()).is_ok());
  for (const int scale : {0, 9, 247, 255}) {
    scales[0] = static_cast<std::uint8_t>(scale);
    EXPECT_EQ(matrix.pack_e4m3_rows(0, 32, codes.data(), scales.data()).code(),
              StatusCode::unsupported);
  }
  scales[0] = 120;
  codes[700] = 0xFF;
  EXPECT_EQ(matrix.pack_e4m3_rows(0, 32, codes.data(), scales.data()).code(),
            StatusCode::unsupported);
  EXPECT_FALSE(PackedMatrix::allocate({1, 48, 32, 0, false, true}).is_ok());
}

TEST(Projection, ExactSumsAreRoundedOnceToBf16) {
  test::Random random;
  for (const std::int32_t inner : {2, 7, 64, 301}) {
    const Problem problem(
        {.group_count = 2, .group_rows = 70, .inner_count = inner, .is_exact = true}, random);
    const Bits x = problem.random_x(random, 5);
    const std::vector<float> wide = widened(x);
    const std::vector<float> y = product_of(problem, x);
    EXPECT_EQ(product_of(problem, wide), y);
    for (std::size_t i = 0; i < y.size(); ++i) {
      const double sum = problem.expected(wide, static_cast<std::int64_t>(i) / 140,
                                          static_cast<std::int64_t>(i) % 140);
      if (y[i] == 0.0F) continue;  // its neighbours have two signs
      const std::uint16_t bits = f32_to_bf16(y[i]);
      ASSERT_EQ(bf16_to_f32(bits), y[i]);
      const double error = std::fabs(static_cast<double>(y[i]) - sum);
      for (const int neighbour : {-1, 1}) {
        const auto other = bf16_to_f32(static_cast<std::uint16_t>(bits + neighbour));
        EXPECT_LE(error, std::fabs(static_cast<double>(other) - sum));
      }
    }
  }
}

TEST(Projection, RoundingADoubleToBf16IsRoundedOnce) {
  // Just above the middle between 1 and the next bf16: f32 alone would round to the middle first.
  EXPECT_EQ(f64_rounded_to_bf16(1.0 + 0x1p-8), 1.0F);
  EXPECT_EQ(f64_rounded_to_bf16(1.0 + 0x1p-8 + 0x1p-40), 1.0F + 0x1p-7F);
  EXPECT_EQ(f64_rounded_to_bf16(1.0 + 0x3p-8 - 0x1p-40), 1.0F + 0x1p-7F);
  EXPECT_EQ(f64_rounded_to_bf16(-1.0 - 0x1p-8 - 0x1p-40), -1.0F - 0x1p-7F);
  EXPECT_EQ(f64_rounded_to_bf16(0.0), 0.0F);
  EXPECT_EQ(f64_rounded_to_bf16(1e300), INFINITY);
  EXPECT_TRUE(std::isnan(f64_rounded_to_bf16(NAN)));
}

// A block's products are summed from zero, and the sum is added to what the blocks before it gave.
TEST(Projection, BlocksAreSummedApart) {
  test::Random random;
  constexpr std::int32_t kBlock = 32;
  const Problem whole({1, 70, 3 * kBlock, kBlock}, random);
  const Bits x = whole.random_x(random, 5);
  std::vector<float> sums;
  for (std::int32_t begin = 0; begin < whole.shape.inner_count; begin += kBlock) {
    Problem part({1, 70, kBlock}, random);
    Bits part_x;
    const auto append = [&](const Bits& from, std::int64_t row, Bits& to) {
      const auto first = from.begin() + row * whole.shape.inner_count + begin;
      to.insert(to.end(), first, first + kBlock);
    };
    part.w.clear();
    for (std::int64_t row = 0; row < 70; ++row) append(whole.w, row, part.w);
    for (std::int64_t token = 0; token < 5; ++token) append(x, token, part_x);
    ASSERT_TRUE(part.matrix.pack_rows(0, 70, part.w.data()).is_ok());
    const std::vector<float> block = product_of(part, part_x);
    if (sums.empty()) sums.resize(block.size());
    for (std::size_t i = 0; i < block.size(); ++i) sums[i] += block[i];
  }
  EXPECT_EQ(product_of(whole, x), sums);
}

TEST(Projection, KeepsNanAndInfinityInTheirToken) {
  test::Random random;
  const Problem problem({1, 70, 64}, random);
  Bits x = problem.random_x(random, 3);
  x[64 + 5] = 0x7FC0;
  x[128 + 5] = 0x7F80;
  const std::vector<float> y = product_of(problem, x);
  for (std::size_t row = 0; row < 70; ++row) {
    EXPECT_TRUE(std::isfinite(y[row]));
    EXPECT_TRUE(std::isnan(y[70 + row]));
    EXPECT_FALSE(std::isfinite(y[140 + row]));
  }
}

TEST(PackedMatrix, TakesItsRowsInBlocksOfAnySize) {
  test::Random random;
  const Problem problem({3, 37, 51}, random);
  PackedMatrix other = PackedMatrix::allocate(problem.shape).value();
  for (std::int64_t row = 0; row < other.row_count();) {
    const std::int64_t count = std::min(random.between(0, 40), other.row_count() - row);
    ASSERT_TRUE(other.pack_rows(row, count, problem.w.data() + row * 51).is_ok());
    row += count;
  }
  for (std::int32_t p = 0; p < other.panel_count(); ++p) {
    const std::int64_t length = other.pair_count() * PackedMatrix::kPanelRows * 2;
    EXPECT_TRUE(std::equal(other.panel(p), other.panel(p) + length, problem.matrix.panel(p)));
  }
}

TEST(PackedMatrix, RefusesWhatDoesNotFit) {
  PackedMatrix matrix = PackedMatrix::allocate({2, 10, 4}).value();
  const Bits rows(21 * 4);
  EXPECT_FALSE(matrix.pack_rows(0, 21, rows.data()).is_ok());
  EXPECT_FALSE(matrix.pack_rows(20, 1, rows.data()).is_ok());
  EXPECT_FALSE(matrix.pack_rows(-1, 1, rows.data()).is_ok());
  EXPECT_TRUE(matrix.pack_rows(20, 0, rows.data()).is_ok());
  EXPECT_FALSE(PackedMatrix::allocate({0, 10, 4}).is_ok());
  EXPECT_FALSE(PackedMatrix::allocate({1, 10, 0}).is_ok());
}

}  // namespace
}  // namespace ple::kernels
