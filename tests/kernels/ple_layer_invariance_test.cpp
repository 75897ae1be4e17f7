// The output bits of a token depend on its own sequence alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

#include "kernels/cpu_layer.hpp"
#include "support/ple_cases.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using kernels::Arithmetic;
using kernels::HighwayType;
using kernels::OutputMode;
using Parts = std::vector<CpuLayer::Part>;

class PleLayerInvariance : public testing::TestWithParam<std::tuple<int, Arithmetic, HighwayType>> {
 protected:
  void SetUp() override {
    const auto [case_index, arithmetic, highway_type] = GetParam();
    const PleCase layer_case = ple_cases()[static_cast<std::size_t>(case_index)];
    problem_ = make_ple_problem(layer_case.shape, layer_case.format, layer_case.row_dim,
                                random_.bits(), layer_case.has_bias);
    options_.arithmetic = arithmetic;
    options_.highway_type = highway_type;
    options_.output_mode = OutputMode::update;
    for (const std::int32_t length : {29, 1, 60, 13}) {
      sequences_.push_back(make_ple_sequence(problem_, length, random_.bits()));
    }
    CpuLayer layer(problem_, sequences_, options_);
    layer.step_rest();
    expect_outputs(layer, true);
  }

  // The first call keeps the outputs; later ones compare with them.
  void expect_outputs(const CpuLayer& layer, bool is_first = false) {
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      if (is_first) expected_.push_back(layer.output(i));
      ASSERT_EQ(layer.output(i), expected_[i]) << "sequence " << i;
    }
  }

  Random random_;
  PleProblem problem_;
  CpuLayer::Options options_;
  std::vector<PleSequence> sequences_;
  std::vector<std::vector<float>> expected_;
};

TEST_P(PleLayerInvariance, EveryChunkLengthGivesTheSameBits) {
  for (const std::int32_t chunk : {1, 2, 3, 7, 10}) {
    CpuLayer layer(problem_, sequences_, options_);
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      for (std::int32_t begin = 0; begin < sequences_[i].token_count; begin += chunk) {
        layer.step({{i, std::min(chunk, sequences_[i].token_count - begin)}});
      }
    }
    expect_outputs(layer);
  }
}

TEST_P(PleLayerInvariance, RaggedBatchesOnSeveralThreadsGiveTheSameBits) {
  options_.thread_count = 3;
  CpuLayer layer(problem_, sequences_, options_);
  std::vector<std::int32_t> left;
  for (const PleSequence& sequence : sequences_) left.push_back(sequence.token_count);
  while (std::any_of(left.begin(), left.end(), [](std::int32_t count) { return count > 0; })) {
    Parts parts;
    for (std::size_t i = 0; i < left.size(); ++i) {
      const auto count = static_cast<std::int32_t>(random_.between(0, std::min(left[i], 12)));
      left[i] -= count;
      parts.push_back({i, count});
    }
    std::shuffle(parts.begin(), parts.end(), random_.engine());
    layer.step(parts);
  }
  expect_outputs(layer);
}

TEST_P(PleLayerInvariance, AStepCanBeRunAgainAndBeCutShort) {
  CpuLayer layer(problem_, sequences_, options_);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int32_t position = 0; position < sequences_[i].token_count;) {
      const std::int32_t left = sequences_[i].token_count - position;
      const auto drafts = std::min(left, static_cast<std::int32_t>(random_.between(1, 5)));
      // A step whose drafts are rejected, the same one twice, then the accepted part of it.
      layer.step({{i, drafts}}, false);
      layer.step({{i, drafts}}, false);
      const auto accepted = static_cast<std::int32_t>(random_.between(1, drafts));
      layer.step({{i, accepted}});
      position += accepted;
    }
  }
  expect_outputs(layer);
}

TEST_P(PleLayerInvariance, AnAcceptedPrefixOfDraftsNeedsNoSecondRun) {
  CpuLayer layer(problem_, sequences_, options_);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int32_t position = 0; position < sequences_[i].token_count;) {
      const std::int32_t left = sequences_[i].token_count - position;
      const auto drafts = std::min(left, static_cast<std::int32_t>(random_.between(1, 5)));
      layer.step({{i, drafts}}, false);
      const auto accepted = static_cast<std::int32_t>(random_.between(1, drafts));
      layer.accept(i, accepted);
      position += accepted;
    }
  }
  expect_outputs(layer);
}

TEST_P(PleLayerInvariance, ARebuiltRingContinuesWithTheSameBits) {
  CpuLayer layer(problem_, sequences_, options_);
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    for (std::int32_t position = 0; position < sequences_[i].token_count;) {
      const auto count = std::min(sequences_[i].token_count - position,
                                  static_cast<std::int32_t>(random_.between(1, 9)));
      layer.step({{i, count}});
      position += count;
      layer.forget_and_rebuild(i);
    }
  }
  expect_outputs(layer);
}

INSTANTIATE_TEST_SUITE_P(Cases, PleLayerInvariance,
                         testing::Combine(testing::Values(1, 2, 4, 9),
                                          testing::Values(Arithmetic::float32, Arithmetic::mixed,
                                                          Arithmetic::reference),
                                          testing::Values(HighwayType::f32, HighwayType::bf16)));

}  // namespace
}  // namespace ple::test
