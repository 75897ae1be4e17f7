#include "kernels/ple_layer_cpu.hpp"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "kernels/cpu_layer.hpp"
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
  // A sum in another order may flip a rounding, which in a small layer weighs much.
  return arithmetic == Arithmetic::float32 ? 2e-6 : arithmetic == Arithmetic::mixed ? 2e-3 : 1.5e-3;
}

class PleLayerCases : public testing::TestWithParam<std::tuple<PleCase, Arithmetic, HighwayType>> {
};

TEST_P(PleLayerCases, AgreeWithFloat64) {
  const auto& [layer_case, arithmetic, highway_type] = GetParam();
  const std::uint64_t seed = Random().bits();
  const PleProblem problem = make_ple_problem(layer_case.shape, layer_case.format,
                                              layer_case.row_dim, seed, layer_case.has_bias);
  const auto sequences = make_sequences(problem, layer_case.sequence_lengths, seed);
  CpuLayer layer(problem, sequences, {.arithmetic = arithmetic, .highway_type = highway_type});
  layer.step_rest();
  const double bound = tolerance_of(arithmetic, highway_type);
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i].token_count == 0) continue;
    EXPECT_LT(error_to_float64(layer.output(i), problem, arithmetic,
                               embeddings_of(problem, sequences[i]), sequences[i].highway, bound),
              bound);
  }
}

TEST(PleOracle, TellsAMovedGateFromAWrongOne) {
  constexpr double kBound = 1.5e-3;
  const kernels::PleShape shape{.hidden = 160,
                                .stream_count = 2,
                                .column_count = 4,
                                .tap_count = 4,
                                .dilation = 3,
                                .eps = 1e-6F};
  const PleProblem problem = make_ple_problem(shape, RowFormat::bf16, 40, 7);
  const PleSequence sequence = make_ple_sequence(problem, 2, 8);
  const auto embeddings = embeddings_of(problem, sequence);
  const auto error_of = [&](MovedGate moved) {
    const auto output =
        PleOracle(problem, Arithmetic::reference).run(embeddings, sequence.highway, moved);
    return error_to_float64(output, problem, Arithmetic::reference, embeddings, sequence.highway,
                            kBound);
  };
  for (const std::size_t token : {0, 1}) {
    for (const std::size_t stream : {0, 1}) {
      EXPECT_LT(error_of({token, stream, 1}), kBound);
      EXPECT_LT(error_of({token, stream, -1}), kBound);
      EXPECT_GT(error_of({token, stream, 4}), kBound);
      EXPECT_GT(error_of({token, stream, -4}), kBound);
    }
  }
}

std::string name_of(
    const testing::TestParamInfo<std::tuple<PleCase, Arithmetic, HighwayType>>& info) {
  const char* const names[] = {"Float32", "Mixed", "Reference"};
  const auto& [layer_case, arithmetic, highway_type] = info.param;
  return layer_case.name + names[static_cast<int>(arithmetic)] +
         (highway_type == HighwayType::f32 ? "F32" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(All, PleLayerCases,
                         testing::Combine(testing::ValuesIn(ple_cases()),
                                          testing::Values(Arithmetic::float32, Arithmetic::mixed,
                                                          Arithmetic::reference),
                                          testing::Values(HighwayType::f32, HighwayType::bf16)),
                         name_of);

}  // namespace
}  // namespace ple::test
