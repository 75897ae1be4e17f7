// The released width against the public reference, in every arithmetic.

#include <gtest/gtest.h>

#include <vector>

#include "kernels/cpu_layer.hpp"
#include "support/ple_oracle.hpp"
#include "support/wide_case.hpp"

namespace ple::test {
namespace {

std::vector<float> added_by(const WideCase& wide, Arithmetic arithmetic) {
  const std::vector<PleSequence> sequences = {wide.sequence};
  CpuLayer layer(wide.problem, sequences, {.arithmetic = arithmetic, .thread_count = 2});
  layer.step_rest();
  return layer.output(0);
}

TEST(PleLayerGolden, Float32AndMixedAgreeWithTheF32Reference) {
  const WideCase wide = wide_case("f32");
  const double float32 = relative_error(added_by(wide, Arithmetic::float32), wide.output);
  const double mixed = relative_error(added_by(wide, Arithmetic::mixed), wide.output);
  RecordProperty("float32", std::to_string(float32));
  EXPECT_LT(float32, 1e-5);
  EXPECT_LT(mixed, 2e-3);
  std::printf("float32 %.2e, mixed %.2e\n", float32, mixed);
}

TEST(PleLayerGolden, ReferenceArithmeticAgreesWithTheBf16Reference) {
  const WideCase wide = wide_case("bf16");
  const std::vector<float> added = added_by(wide, Arithmetic::reference);
  std::size_t equal_count = 0;
  for (std::size_t i = 0; i < added.size(); ++i) equal_count += added[i] == wide.output[i];
  const double equal_share = static_cast<double>(equal_count) / static_cast<double>(added.size());
  const double error = relative_error(added, wide.output);
  EXPECT_LT(error, 3e-4);
  EXPECT_GE(equal_share, 0.995);
  std::printf("reference %.2e, %.3f %% equal\n", error, 100.0 * equal_share);
}

}  // namespace
}  // namespace ple::test
