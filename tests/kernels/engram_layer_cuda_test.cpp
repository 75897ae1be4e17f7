#include "kernels/engram_layer_cuda.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <ostream>
#include <string>
#include <tuple>

#include "kernels/engram_cuda_layer.hpp"
#include "support/ple_oracle.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using kernels::EngramRounding;
using kernels::EngramShape;
using kernels::EngramWeightForm;
using kernels::HighwayType;
using kernels::OutputMode;

constexpr EngramRounding kFp8{.quantizes_rows = true, .rounds_product = true};
constexpr EngramRounding kRounded{.quantizes_rows = false, .rounds_product = true};
constexpr EngramRounding kExact{};

// How the weights are held, and which kernels multiply them.
struct Product {
  const char* name;
  EngramWeightForm form;
  bool has_wgmma;
};
constexpr Product kProducts[] = {{"E4m3", EngramWeightForm::e4m3, true},
                                 {"Bf16", EngramWeightForm::bf16, true},
                                 {"Mma", EngramWeightForm::bf16, false}};

struct EngramCase {
  const char* name;
  EngramShape shape;
  std::int32_t row_dim;
  std::int32_t token_count;

  friend std::ostream& operator<<(std::ostream& out, const EngramCase& c) { return out << c.name; }
};

EngramShape engram_shape(std::int32_t hidden, std::int32_t stream_count, std::int32_t columns) {
  return {.hidden = hidden, .stream_count = stream_count, .column_count = columns, .eps = 1e-20F};
}

const EngramCase kCases[] = {
    {"Golden4", engram_shape(64, 4, 6), 32, 40},
    {"Golden2", engram_shape(128, 2, 6), 64, 64},
    {"Least", engram_shape(16, 1, 1), 32, 3},
    {"PaddedGroups", engram_shape(176, 1, 3), 32, 65},
    {"OneToken", engram_shape(320, 3, 2), 96, 1},
    {"EightTokens", engram_shape(2560, 3, 2), 64, 8},
    {"NineTokens", engram_shape(2560, 3, 2), 64, 9},
    {"SomeTokens", engram_shape(320, 4, 8), 64, 130},
    {"ManyTokens", engram_shape(320, 4, 8), 64, 700},
    {"Released", engram_shape(5120, 4, 24), 256, 5},
    {"ReleasedMany", engram_shape(5120, 4, 24), 256, 70},
};

// A bf16 key or value may fall on either side of an edge, as the order of the f32 sums wants it: of
// few values, one of them is much.
double tolerance_of(const EngramRounding& rounding, HighwayType type, std::int64_t value_count) {
  if (type == HighwayType::bf16) return 4e-3;
  if (!rounding.rounds_product) return 1e-5;
  return 5e-4 + 0x1p-7 / std::sqrt(static_cast<double>(value_count));
}

// The gate rises with the root of the score, so that next to zero the score's rounding weighs much.
// `halves` are the outputs where all scores are zero.
double error_beside_roots(const std::vector<float>& actual, const std::vector<float>& expected,
                          const std::vector<float>& halves, std::int32_t hidden) {
  constexpr double kGateOfZero = 0.50025;
  constexpr double kNearZero = 1e-3;
  constexpr double kScoreRounding = 1e-5;
  constexpr double kLeastScore = 1e-6;  // what the gate takes for a smaller one
  const auto norm_of = [hidden](const auto& element, std::size_t begin) {
    double sum = 0.0;
    for (std::size_t i = begin; i < begin + static_cast<std::size_t>(hidden); ++i) {
      sum += element(i) * element(i);
    }
    return std::sqrt(sum);
  };
  double difference = 0.0;
  double norm = 0.0;
  for (std::size_t at = 0; at < expected.size(); at += static_cast<std::size_t>(hidden)) {
    double off = norm_of([&](std::size_t i) { return double{actual[i]} - expected[i]; }, at);
    const double output = norm_of([&](std::size_t i) { return double{expected[i]}; }, at);
    const double value =
        norm_of([&](std::size_t i) { return double{halves[i]}; }, at) / kGateOfZero;
    if (value > 0.0) {
      const double gate = output / value;
      const double root = std::fabs(std::log(gate / (1.0 - gate)));
      if (root * root < kNearZero) {
        const double below = root * root - kScoreRounding;
        const double root_below =
            std::copysign(std::sqrt(std::max(std::fabs(below), kLeastScore)), below);
        const double allowed = (root - root_below) / 4.0 * value;
        off = off < allowed ? 0.0 : off - allowed;
      }
    }
    difference += off * off;
    norm += output * output;
  }
  return difference == 0.0 ? 0.0 : std::sqrt(difference / norm);
}

void expect_cpu_output(const EngramProblem& problem, const EngramBatch& batch,
                       const EngramRounding& rounding) {
  const auto pool = ThreadPool::create(0).value();
  const auto output_of = [&](const EngramProblem& asked) {
    return run_engram_cpu(asked, batch, cpu_weights(asked, rounding), rounding, OutputMode::delta,
                          *pool);
  };
  const auto expected = output_of(problem);
  EngramProblem without_scores = problem;
  without_scores.query_weight.assign(problem.query_weight.size(), 0);
  const auto halves = output_of(without_scores);
  for (const Product& product : kProducts) {
    for (const HighwayType type : {HighwayType::f32, HighwayType::bf16}) {
      SCOPED_TRACE(product.name + std::string(type == HighwayType::f32 ? " f32" : " bf16"));
      EngramCudaLayer layer(problem, {.rounding = rounding,
                                      .form = product.form,
                                      .highway_type = type,
                                      .has_wgmma = product.has_wgmma,
                                      .token_capacity = batch.token_count});
      EXPECT_LT(error_beside_roots(layer.run(batch), expected, halves, problem.shape.hidden),
                tolerance_of(rounding, type, std::ssize(expected)));
    }
  }
}

class EngramLayerCudaCases : public testing::TestWithParam<std::tuple<EngramCase, int>> {
 protected:
  void SetUp() override { skip_without_gpu(); }
};

TEST_P(EngramLayerCudaCases, AgreeWithTheCpu) {
  const auto& [layer_case, rounding_index] = GetParam();
  const std::uint64_t seed = Random().bits();
  const EngramProblem problem = make_engram_problem(layer_case.shape, layer_case.row_dim, seed);
  EngramBatch batch = make_engram_batch(problem, layer_case.token_count, seed);
  batch.dead[batch.dead.size() / 2] = 1;
  expect_cpu_output(problem, batch, std::array{kFp8, kRounded, kExact}[rounding_index]);
}

std::string name_of(const testing::TestParamInfo<std::tuple<EngramCase, int>>& info) {
  const char* const names[] = {"Fp8", "Rounded", "Exact"};
  return std::get<0>(info.param).name + std::string(names[std::get<1>(info.param)]);
}

INSTANTIATE_TEST_SUITE_P(All, EngramLayerCudaCases,
                         testing::Combine(testing::ValuesIn(kCases), testing::Range(0, 3)),
                         name_of);

class EngramLayerCuda : public testing::Test {
 protected:
  void SetUp() override { skip_without_gpu(); }
  Random random_;
};

TEST_F(EngramLayerCuda, RandomGeometriesAgreeWithTheCpu) {
  for (int round = 0; round < 12; ++round) {
    const auto streams = static_cast<std::int32_t>(random_.between(1, 6));
    const EngramShape shape =
        engram_shape(static_cast<std::int32_t>(32 * random_.between(1, 14)), streams,
                     static_cast<std::int32_t>(random_.between(1, 9)));
    const EngramProblem problem = make_engram_problem(
        shape, static_cast<std::int32_t>(32 * random_.between(1, 5)), random_.bits());
    const EngramBatch batch = make_engram_batch(
        problem, static_cast<std::int32_t>(random_.between(1, 150)), random_.bits());
    SCOPED_TRACE(testing::Message()
                 << "hidden " << shape.hidden << ", " << streams << " streams, "
                 << shape.column_count << " columns, " << batch.token_count << " tokens");
    expect_cpu_output(problem, batch, random_.chance(0.5) ? kFp8 : kExact);
  }
}

TEST_F(EngramLayerCuda, BitsOfATokenDoNotDependOnTheStepsAroundIt) {
  const EngramProblem problem = make_engram_problem(engram_shape(320, 4, 6), 64, random_.bits());
  const EngramBatch batch = make_engram_batch(problem, 530, random_.bits());
  for (const Product& product : kProducts) {
    SCOPED_TRACE(product.name);
    EngramCudaLayer::Options options{
        .rounding = kFp8, .form = product.form, .has_wgmma = product.has_wgmma};
    options.token_capacity = batch.token_count;
    const auto whole = EngramCudaLayer(problem, options).run(batch);
    for (const std::int32_t capacity : {7, 64, 200, 400}) {
      options.token_capacity = capacity;
      EngramCudaLayer layer(problem, options);
      std::vector<float> pieces;
      for (std::int32_t begin = 0; begin < batch.token_count;) {
        const auto count = static_cast<std::int32_t>(
            random_.between(1, std::min(capacity, batch.token_count - begin)));
        const auto piece = layer.run(batch, begin, count);
        pieces.insert(pieces.end(), piece.begin(), piece.end());
        begin += count;
      }
      EXPECT_EQ(pieces, whole) << "capacity " << capacity;
    }
  }
}

// Fewer multiprocessors: a thread block has more slices, or several tiles.
TEST_F(EngramLayerCuda, BitsDoNotDependOnTheMultiprocessors) {
  for (const std::int32_t columns : {5, 6}) {  // an odd number of chunks, an even one
    const EngramProblem problem =
        make_engram_problem(engram_shape(320, 4, columns), 64, random_.bits());
    for (const std::int32_t token_count : {1, 8, 50, 64, 300}) {
      const EngramBatch batch = make_engram_batch(problem, token_count, random_.bits());
      EngramCudaLayer::Options options{.rounding = kFp8, .token_capacity = token_count};
      const auto whole = EngramCudaLayer(problem, options).run(batch);
      for (const std::int32_t multiprocessors : {2, 3, 7, 8, 9, 11, 25}) {
        options.multiprocessor_count = multiprocessors;
        EXPECT_EQ(EngramCudaLayer(problem, options).run(batch), whole)
            << token_count << " tokens on " << multiprocessors << " multiprocessors";
      }
    }
  }
}

TEST_F(EngramLayerCuda, BothFormsOfTheWeightsGiveTheSameBits) {
  // Every code, and every scale that is allowed.
  const EngramProblem problem =
      make_engram_problem(engram_shape(320, 4, 6), 96, random_.bits(), 0, kernels::kMaxWeightScale);
  for (const std::int32_t token_count : {1, 50, 300}) {
    const EngramBatch batch = make_engram_batch(problem, token_count, random_.bits());
    for (const EngramRounding& rounding : {kFp8, kExact}) {
      EngramCudaLayer::Options options{.rounding = rounding, .token_capacity = token_count};
      const auto e4m3 = EngramCudaLayer(problem, options).run(batch);
      options.form = EngramWeightForm::bf16;
      const auto bf16 = EngramCudaLayer(problem, options).run(batch);
      EXPECT_EQ(std::memcmp(e4m3.data(), bf16.data(), e4m3.size() * sizeof(float)), 0)
          << token_count << " tokens";
    }
  }
}

TEST_F(EngramLayerCuda, DeadTokensKeepTheirBitsAndTouchNoOther) {
  const EngramProblem problem = make_engram_problem(engram_shape(96, 3, 6), 32, random_.bits());
  EngramBatch batch = make_engram_batch(problem, 90, random_.bits());
  const auto width = static_cast<std::size_t>(problem.channel_count());
  for (const OutputMode mode : {OutputMode::update, OutputMode::delta}) {
    EngramCudaLayer layer(
        problem, {.rounding = kFp8, .output_mode = mode, .token_capacity = batch.token_count});
    std::fill(batch.dead.begin(), batch.dead.end(), std::uint8_t{0});
    auto expected = layer.run(batch);
    for (std::size_t token = 0; token < batch.dead.size(); ++token) {
      if (!random_.chance(0.3)) continue;
      batch.dead[token] = 1;
      for (std::size_t i = token * width; i < (token + 1) * width; ++i) {
        expected[i] = mode == OutputMode::update ? batch.highway[i] : 0.0F;
      }
    }
    EXPECT_EQ(layer.run(batch), expected);
  }
}

TEST_F(EngramLayerCuda, AnEmptyStepWritesNothing) {
  const EngramProblem problem = make_engram_problem(engram_shape(320, 4, 6), 64, random_.bits());
  const EngramBatch batch = make_engram_batch(problem, 1, random_.bits());
  for (const std::int32_t capacity : {1, 64, 300}) {
    EngramCudaLayer layer(problem, {.rounding = kFp8, .token_capacity = capacity});
    EXPECT_TRUE(layer.run(batch, 0, 0).empty());
  }
}

TEST(EngramShapeCuda, RefusesWhatTheKernelsDoNotRun) {
  EngramShape shape = engram_shape(64, 4, 6);
  shape.embed_dim = 192;
  EXPECT_TRUE(kernels::check_engram_shape_cuda(shape).is_ok());
  shape.hidden = 72;
  EXPECT_EQ(kernels::check_engram_shape_cuda(shape).code(), StatusCode::unsupported);
  shape.hidden = 64;
  shape.embed_dim = 200;
  EXPECT_EQ(kernels::check_engram_shape_cuda(shape).code(), StatusCode::unsupported);
}

}  // namespace
}  // namespace ple::test
