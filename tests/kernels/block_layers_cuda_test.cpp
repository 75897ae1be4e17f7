// LongCat's and Gemma's layers on a CUDA device against the CPU's operators, in every form of the
// product, with every row format.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

#include "kernels/block_few_plan.hpp"
#include "kernels/block_layers.hpp"

namespace ple::test {
namespace {

using kernels::FewForm;
using kernels::GemmaShape;
using kernels::LongcatShape;

constexpr RowFormat kFormats[] = {
    RowFormat::bf16,         RowFormat::f16,           RowFormat::f32,      RowFormat::fp8_e4m3,
    RowFormat::fp8_e4m3_row, RowFormat::fp8_e4m3_e8m0, RowFormat::int8_row, RowFormat::nvfp4};

// Steps of so many tokens take each form of the product on Hopper.
constexpr std::int32_t kStepTokens[] = {1, 5, 8, 9, 40, 64, 65, 129, 256, 300, 700};

// As little work as takes each form of the product on Hopper, for compute-sanitizer.
struct FormCase {
  std::int32_t columns = 0;
  std::int32_t chunks = 0;  // of the inner dimension
  std::int32_t tokens = 0;
};
constexpr FormCase kFormCases[] = {{64, 1, 8},     {64, 96, 32},   {3264, 1, 8},   {64, 2, 40},
                                   {64, 4, 40},    {4416, 2, 100}, {4416, 1, 130}, {1728, 4, 100},
                                   {1920, 4, 130}, {64, 1, 300},   {64, 1, 520}};

LongcatShape longcat_shape(const FormCase& form) {
  return {.vocab_size = 9,
          .hidden = form.columns,
          .table_count = form.chunks,
          .row_dim = kernels::kChunk};
}

GemmaShape gemma_shape(const FormCase& form) {
  constexpr std::int32_t kLayerDim = 64;
  return {.hidden = form.chunks * kernels::kChunk,
          .layer_count = form.columns / kLayerDim,
          .layer_dim = kLayerDim,
          .eps = 1e-6F};
}

// Sums are added in another order; a result that lies between two bf16 numbers may be rounded to
// the other one.
double tolerance_of(bool rounds_each, HighwayType type) {
  if (rounds_each) return 2e-3;
  return type == HighwayType::bf16 ? 1e-3 : 2e-6;
}

class BlockLayersCuda : public testing::TestWithParam<std::tuple<bool, bool, HighwayType>> {
 protected:
  void SetUp() override { skip_without_gpu(); }
  bool has_wgmma() const { return std::get<0>(GetParam()); }
  bool rounds_each() const { return std::get<1>(GetParam()); }
  HighwayType type() const { return std::get<2>(GetParam()); }

  // The same tokens in steps of several sizes and capacities.
  template <class Layer, class Problem>
  void check(const Problem& problem, std::int32_t row_length) {
    const std::vector<float> expected = problem.run_cpu(rounds_each(), type());
    Layer whole(problem, problem.tokens.token_count, has_wgmma(), rounds_each(), type());
    const std::vector<float> got = whole.run(0, problem.tokens.token_count);
    EXPECT_LT(distance(got, expected), tolerance_of(rounds_each(), type()));
    for (const std::int32_t count : kStepTokens) {
      if (count >= problem.tokens.token_count) break;
      const auto begin =
          static_cast<std::int32_t>(random_.between(0, problem.tokens.token_count - count));
      for (const std::int32_t capacity : {count, count + 30}) {
        Layer layer(problem, capacity, has_wgmma(), rounds_each(), type());
        const std::vector<float> part = layer.run(begin, count);
        ASSERT_EQ(part, std::vector<float>(got.begin() + std::int64_t{begin} * row_length,
                                           got.begin() + std::int64_t{begin + count} * row_length))
            << count << " tokens of " << capacity;
      }
    }
  }

  // All tokens in one step.
  template <class Layer, class Problem>
  void check_step(const Problem& problem) {
    const std::int32_t count = problem.tokens.token_count;
    Layer layer(problem, count, has_wgmma(), rounds_each(), type());
    EXPECT_LT(distance(layer.run(0, count), problem.run_cpu(rounds_each(), type())),
              tolerance_of(rounds_each(), type()));
  }

  Random random_;
};

TEST_P(BlockLayersCuda, LongcatAgreesWithTheCpuWhateverTheStep) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return static_cast<std::int32_t>(random_.between(least, most));
  };
  std::vector<LongcatShape> shapes = {
      {.vocab_size = 50, .hidden = 96, .table_count = 12, .row_dim = 8},
      {.vocab_size = 50, .hidden = 64, .table_count = 8, .row_dim = 8},
      {.vocab_size = 20, .hidden = 512, .table_count = 16, .row_dim = 512}};
  for (int i = 0; i < 4; ++i) {
    shapes.push_back({.vocab_size = draw(1, 90),
                      .hidden = 8 * draw(1, 60),
                      .table_count = draw(1, 20),
                      .row_dim = draw(1, 300)});
  }
  for (const LongcatShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << shape.hidden << " channels, " << shape.table_count
                                    << " rows of " << shape.row_dim);
    check<LongcatCuda>(LongcatProblem(random_, shape, RowFormat::bf16, draw(66, 800)),
                       shape.hidden);
  }
}

TEST_P(BlockLayersCuda, GemmaAgreesWithTheCpuWhateverTheStep) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return static_cast<std::int32_t>(random_.between(least, most));
  };
  std::vector<GemmaShape> shapes = {
      {.hidden = 96, .layer_count = 4, .layer_dim = 24, .eps = 1e-6F},
      {.hidden = 1536, .layer_count = 3, .layer_dim = 256, .eps = 1e-6F}};
  for (int i = 0; i < 3; ++i) {
    shapes.push_back({.hidden = 8 * draw(1, 60),
                      .layer_count = draw(1, 9),
                      .layer_dim = 8 * draw(1, 40),
                      .eps = 1e-6F});
  }
  for (const GemmaShape& shape : shapes) {
    SCOPED_TRACE(testing::Message() << "hidden " << shape.hidden << ", " << shape.layer_count
                                    << " layers of " << shape.layer_dim);
    check<GemmaCuda>(GemmaProblem(random_, shape, RowFormat::bf16, draw(66, 400)),
                     shape.layer_count * shape.layer_dim);
  }
}

TEST_P(BlockLayersCuda, ReleasedModelsAgreeWithTheCpu) {
  check<LongcatCuda>(
      LongcatProblem(random_,
                     {.vocab_size = 300, .hidden = 3072, .table_count = 12, .row_dim = 256},
                     RowFormat::bf16, 200),
      3072);
  check<GemmaCuda>(
      GemmaProblem(random_, {.hidden = 2048, .layer_count = 30, .layer_dim = 256, .eps = 1e-6F},
                   RowFormat::bf16, 200),
      30 * 256);
}

TEST_P(BlockLayersCuda, EveryFormOfTheProductAgreesWithTheCpu) {
  for (const FormCase& form : kFormCases) {
    SCOPED_TRACE(testing::Message() << form.columns << " columns, " << form.chunks << " chunks, "
                                    << form.tokens << " tokens");
    check_step<LongcatCuda>(
        LongcatProblem(random_, longcat_shape(form), RowFormat::bf16, form.tokens));
    check_step<GemmaCuda>(GemmaProblem(random_, gemma_shape(form), RowFormat::bf16, form.tokens));
  }
}

TEST(BlockFormCases, TakeEveryFormOfTheProduct) {
  constexpr std::int32_t kMultiprocessors = 132;  // of an H200
  std::vector<FewForm> few;
  std::vector<FewForm> some;
  bool has_many = false;
  bool has_more = false;
  for (const FormCase& form : kFormCases) {
    const kernels::BlockTiles tiles = kernels::longcat_tiles(longcat_shape(form));
    const kernels::FewPlan few_plan(tiles, form.tokens, kMultiprocessors);
    const kernels::SomePlan some_plan(tiles, form.tokens, kMultiprocessors);
    if (takes_few(few_plan, some_plan)) {
      few.push_back(few_plan.form);
    } else if (some_plan.fits()) {
      some.push_back(some_plan.form);
    } else {
      (form.tokens <= 512 ? has_many : has_more) = true;
    }
  }
  EXPECT_THAT(few, testing::UnorderedElementsAreArray(kernels::kFewForms));
  EXPECT_THAT(some, testing::UnorderedElementsAreArray(kernels::kSomeForms));
  EXPECT_TRUE(has_many && has_more);
}

TEST_P(BlockLayersCuda, EveryRowFormatIsDecoded) {
  for (const RowFormat format : kFormats) {
    SCOPED_TRACE(row_format_name(format));
    check<LongcatCuda>(
        LongcatProblem(random_, {.vocab_size = 9, .hidden = 128, .table_count = 3, .row_dim = 256},
                       format, 70),
        128);
    check<GemmaCuda>(
        GemmaProblem(random_, {.hidden = 64, .layer_count = 5, .layer_dim = 256, .eps = 1e-6F},
                     format, 70),
        5 * 256);
  }
}

std::string name_of(const testing::TestParamInfo<std::tuple<bool, bool, HighwayType>>& info) {
  const auto& [has_wgmma, rounds_each, type] = info.param;
  return std::string(has_wgmma ? "Wgmma" : "Mma") + (rounds_each ? "Rounded" : "") +
         (type == HighwayType::f32 ? "F32" : "Bf16");
}

INSTANTIATE_TEST_SUITE_P(All, BlockLayersCuda,
                         testing::Combine(testing::Bool(), testing::Bool(),
                                          testing::Values(HighwayType::f32, HighwayType::bf16)),
                         name_of);

}  // namespace
}  // namespace ple::test
