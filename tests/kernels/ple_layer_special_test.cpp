// Properties of the PLE layer that follow from its formula, one by one.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu_layer.hpp"
#include "kernels/gate.hpp"
#include "support/ple_cases.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using kernels::Arithmetic;
using kernels::gate_of_score;
using kernels::HighwayType;
using kernels::OutputMode;

const std::vector<Arithmetic> kArithmetics = {Arithmetic::float32, Arithmetic::mixed,
                                              Arithmetic::reference};

PleProblem plain_problem(std::uint64_t seed) {
  return make_ple_problem(ple_shape(70, 3, 4, 4, 3), RowFormat::bf16, 16, seed);
}

std::vector<float> added(const PleProblem& problem, const PleSequence& sequence,
                         Arithmetic arithmetic) {
  const std::vector<PleSequence> sequences = {sequence};
  CpuLayer layer(problem, sequences, {.arithmetic = arithmetic});
  layer.step_rest();
  return layer.output(0);
}

TEST(Gate, IsOneHalfForZeroOfEitherSign) {
  EXPECT_EQ(gate_of_score(0.0F), 0.5F);
  EXPECT_EQ(gate_of_score(-0.0F), 0.5F);
}

TEST(Gate, JumpsByTheFloorBesideZero) {
  const float denormal = std::numeric_limits<float>::denorm_min();
  EXPECT_FLOAT_EQ(gate_of_score(denormal), 0.50025F);
  EXPECT_FLOAT_EQ(gate_of_score(-denormal), 0.49975F);
}

TEST(Gate, SaturatesAtInfinityAndKeepsNan) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(gate_of_score(infinity), 1.0F);
  EXPECT_EQ(gate_of_score(-infinity), 0.0F);
  EXPECT_TRUE(std::isnan(gate_of_score(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Gate, RisesAndIsOddAroundOneHalf) {
  float last = gate_of_score(1e-7F);
  for (float score = 1e-6F; score < 300.0F; score *= 1.1F) {
    EXPECT_GE(gate_of_score(score), last);
    last = gate_of_score(score);
    EXPECT_NEAR(gate_of_score(score) + gate_of_score(-score), 1.0F, 2e-7F);
  }
}

// A value at one position alone reaches the outputs at lags 0, 3, 6 and 9 and nowhere else.
TEST(PleLayer, ImpulseAppearsAtTheTapsOnly) {
  const PleProblem problem = plain_problem(Random().bits());
  PleSequence sequence = make_ple_sequence(problem, 24, 1);
  const std::int32_t impulse = 5;
  for (std::size_t i = 0; i < sequence.slots.size(); ++i) {
    sequence.slots[i] = static_cast<std::int32_t>(i) / 4 == impulse ? SlotId{7} : kZeroSlot;
  }
  for (const Arithmetic arithmetic : kArithmetics) {
    const std::vector<float> output = added(problem, sequence, arithmetic);
    for (std::int32_t t = 0; t < 24; ++t) {
      double magnitude = 0.0;
      for (std::int32_t i = 0; i < 210; ++i) {
        magnitude += std::fabs(output[static_cast<std::size_t>(t * 210 + i)]);
      }
      const std::int32_t lag = t - impulse;
      EXPECT_EQ(magnitude > 0.0, lag == 0 || lag == 3 || lag == 6 || lag == 9) << "lag " << lag;
    }
  }
}

// Key weights of zero make every score zero, so the gate is one half; without a convolution what is
// added is half the value, the same in all streams.
TEST(PleLayer, ZeroKeysAndTapsAddHalfTheValue) {
  PleProblem problem = plain_problem(Random().bits());
  std::fill(problem.key.begin(), problem.key.end(), std::uint16_t{0});
  std::fill(problem.conv.begin(), problem.conv.end(), std::uint16_t{0});
  const PleSequence sequence = make_ple_sequence(problem, 8, 2);
  const std::vector<float> output = added(problem, sequence, Arithmetic::float32);
  const std::vector<std::uint16_t> x = embeddings_of(problem, sequence);
  for (std::size_t t = 0; t < 8; ++t) {
    for (std::size_t channel = 0; channel < 210; ++channel) {
      double v = 0.0;
      for (std::size_t k = 0; k < 64; ++k) {
        v += static_cast<double>(bf16_to_f32(x[t * 64 + k])) *
             bf16_to_f32(problem.value[channel % 70 * 64 + k]);
      }
      EXPECT_NEAR(output[t * 210 + channel], 0.5 * v, 1e-5);
    }
  }
}

TEST(PleLayer, ZeroValuesLeaveTheHighwayAlone) {
  PleProblem problem = plain_problem(Random().bits());
  std::fill(problem.value.begin(), problem.value.end(), std::uint16_t{0});
  const std::vector<PleSequence> sequences = {make_ple_sequence(problem, 12, 3)};
  for (const Arithmetic arithmetic : kArithmetics) {
    for (const HighwayType type : {HighwayType::f32, HighwayType::bf16}) {
      CpuLayer layer(
          problem, sequences,
          {.arithmetic = arithmetic, .highway_type = type, .output_mode = OutputMode::update});
      layer.step_rest();
      EXPECT_EQ(layer.output(0), sequences[0].highway);
    }
  }
}

// A NaN in one stream of the highway reaches that stream, there and at later taps, and no other.
TEST(PleLayer, NanStaysInItsStream) {
  const PleProblem problem = plain_problem(Random().bits());
  PleSequence sequence = make_ple_sequence(problem, 10, 4);
  for (SlotId& slot : sequence.slots) slot = slot == kZeroSlot ? SlotId{3} : slot;
  sequence.highway[2 * 210 + 70 + 11] = std::numeric_limits<float>::quiet_NaN();
  for (const Arithmetic arithmetic : kArithmetics) {
    const std::vector<float> output = added(problem, sequence, arithmetic);
    for (std::size_t t = 0; t < 10; ++t) {
      for (std::size_t c = 0; c < 3; ++c) {
        const bool expected = c == 1 && (t == 2 || t == 5 || t == 8);
        EXPECT_EQ(std::isnan(output[t * 210 + c * 70]), expected)
            << "token " << t << " stream " << c;
        EXPECT_EQ(std::isnan(output[t * 210 + c * 70 + 69]), expected);
      }
    }
  }
}

TEST(PleLayer, UpdateIsTheHighwayPlusTheDelta) {
  const PleProblem problem = plain_problem(Random().bits());
  const std::vector<PleSequence> sequences = {make_ple_sequence(problem, 10, 5)};
  const std::vector<float> delta = added(problem, sequences[0], Arithmetic::float32);
  CpuLayer layer(problem, sequences, {.output_mode = OutputMode::update});
  layer.step_rest();
  for (std::size_t i = 0; i < delta.size(); ++i) {
    EXPECT_EQ(layer.output(0)[i], sequences[0].highway[i] + delta[i]);
  }
}

class PleLayerArguments : public testing::Test {
 protected:
  PleLayerArguments()
      : problem_(plain_problem(1)),
        sequences_({make_ple_sequence(problem_, 4, 1)}),
        layer_(problem_, sequences_, {}) {
    scratch_.resize(kernels::ple_layer_scratch_bytes_cpu(problem_.shape, Arithmetic::float32, 4));
    output_.assign(sequences_[0].highway.size(), -7.0F);
    span_ = {.ring = layer_.state(0).ring.data(), .token_count = 4, .write_count = 4};
    args_.shape = problem_.shape;
    args_.rows = problem_.rows();
    args_.slots = sequences_[0].slots.data();
    args_.highway = sequences_[0].highway.data();
    args_.output = output_.data();
    args_.spans = &span_;
    args_.scratch = scratch_.data();
    args_.span_count = 1;
    args_.token_count = 4;
    args_.ring_length = layer_.ring_length();
  }

  Status run() { return kernels::ple_layer_cpu(args_, layer_.weights(), layer_.pool()); }

  PleProblem problem_;
  std::vector<PleSequence> sequences_;
  CpuLayer layer_;
  std::vector<std::byte> scratch_;
  std::vector<float> output_;
  kernels::PleSpan span_;
  kernels::PleLayerArgs args_;
};

TEST_F(PleLayerArguments, ATokenOfNoSpanIsNotWritten) {
  span_.token_begin = 1;
  span_.token_count = 2;
  span_.write_count = 2;
  ASSERT_TRUE(run().is_ok());
  for (std::size_t i = 0; i < output_.size(); ++i) {
    EXPECT_EQ(output_[i] == -7.0F, i / 210 == 0 || i / 210 == 3);
  }
}

TEST_F(PleLayerArguments, AnEmptyStepDoesNothing) {
  args_.token_count = 0;
  args_.span_count = 0;
  ASSERT_TRUE(run().is_ok());
  EXPECT_EQ(output_, std::vector<float>(output_.size(), -7.0F));
}

TEST_F(PleLayerArguments, SpansBeyondTheStepAreRefused) {
  span_.token_count = 5;
  EXPECT_EQ(run().code(), StatusCode::invalid_argument);
}

TEST_F(PleLayerArguments, WritesIntoTheWindowAreRefused) {
  args_.ring_length = problem_.shape.window() + 3;
  EXPECT_EQ(run().code(), StatusCode::invalid_argument);
}

TEST_F(PleLayerArguments, WeightsOfAnotherShapeAreRefused) {
  args_.shape.hidden = 71;
  EXPECT_EQ(run().code(), StatusCode::invalid_argument);
}

TEST_F(PleLayerArguments, RowsThatDoNotFillTheWidthAreRefused) {
  args_.rows.encoding.dim = 15;
  EXPECT_EQ(run().code(), StatusCode::invalid_argument);
}

}  // namespace
}  // namespace ple::test
