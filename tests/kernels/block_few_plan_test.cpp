// How few and some hundred tokens are shared by the multiprocessors of a Hopper device.

#include "kernels/block_few_plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "support/random.hpp"

namespace ple::test {
namespace {

using kernels::BlockTiles;
using kernels::FewForm;
using kernels::FewPlan;
using kernels::SomePlan;

constexpr std::int32_t kMultiprocessors = 132;  // of an H200
constexpr std::int32_t kBlockSharedBytes = 227 << 10;

constexpr BlockTiles kLongcatLite{.column_count = 3072,
                                  .block_dim = 256,
                                  .block_count = 12,
                                  .weight_block_count = 12,
                                  .chain_chunks = 12};
constexpr BlockTiles kGemmaE2b{.column_count = 7680,
                               .block_dim = 512,
                               .block_count = 4,
                               .weight_block_count = 4,
                               .chain_chunks = 16};

std::int32_t block_count(const FewForm& form, const BlockTiles& tiles) {
  return (tiles.slice_count() + form.slices - 1) / form.slices * form.ranks;
}

TEST(BlockFewPlan, StepsOfReleasedModelsRunAtOnce) {
  for (const BlockTiles& tiles : {kLongcatLite, kGemmaE2b}) {
    for (std::int32_t tokens = 1; tokens <= kernels::kMaxFewTokens; ++tokens) {
      const FewPlan plan(tiles, tokens, kMultiprocessors);
      EXPECT_TRUE(plan.fits()) << tokens << " tokens";
      EXPECT_LE(block_count(plan.form, tiles), kMultiprocessors) << tokens << " tokens";
      EXPECT_GT(block_count(plan.form, tiles), kMultiprocessors * 4 / 5) << tokens << " tokens";
    }
    EXPECT_FALSE(FewPlan(tiles, kernels::kMaxFewTokens + 1, kMultiprocessors).fits());
  }
}

TEST(BlockFewPlan, WhatFitsFitsTheSharedMemoryAndHasAllChains) {
  Random random;
  for (int i = 0; i < 2000; ++i) {
    const auto draw = [&](std::int64_t least, std::int64_t most) {
      return static_cast<std::int32_t>(random.between(least, most));
    };
    BlockTiles tiles;
    tiles.column_count = 8 * draw(1, 1500);
    tiles.block_dim = draw(1, 2000);
    tiles.block_count = draw(1, 20);
    tiles.weight_block_count = tiles.block_count;
    tiles.chain_chunks = draw(1, tiles.chunk_count());
    const std::int32_t tokens = draw(1, 80);
    const FewPlan plan(tiles, tokens, draw(16, 160));
    if (!plan.fits()) continue;
    EXPECT_LE(plan.shared_bytes() + 1024, kBlockSharedBytes);
    EXPECT_GE(plan.rows, tokens);
    EXPECT_GE(plan.rank_chains * plan.form.ranks, tiles.chain_count());
    EXPECT_GE(plan.rank_chunks * plan.form.ranks, tiles.chunk_count());
    EXPECT_GE(plan.piece_chunks * FewPlan::kMaxPieces, plan.rank_chunks);
    EXPECT_EQ(plan.sums_bytes, tiles.chain_count() * plan.rows * plan.share_columns() * 4);
  }
}

TEST(BlockSomePlan, StepsOfReleasedModelsRunAtOnce) {
  for (const BlockTiles& tiles : {kLongcatLite, kGemmaE2b}) {
    for (std::int32_t tokens = 1; tokens <= kernels::kMaxSomeTokens; ++tokens) {
      const SomePlan plan(tiles, tokens, kMultiprocessors);
      EXPECT_TRUE(plan.fits()) << tokens << " tokens";
      const std::int32_t blocks = block_count(plan.form, tiles) * plan.row_tiles;
      EXPECT_LE(blocks, kMultiprocessors) << tokens << " tokens";
      EXPECT_GT(blocks, kMultiprocessors * 4 / 5) << tokens << " tokens";
    }
    EXPECT_FALSE(SomePlan(tiles, kernels::kMaxSomeTokens + 1, kMultiprocessors).fits());
  }
}

TEST(BlockSomePlan, WhatFitsFitsTheSharedMemoryAndHasAllChainsAndTokens) {
  for (const std::int32_t chains : {1, 2, 3, 4, 5}) {
    for (std::int32_t tokens = 1; tokens <= kernels::kMaxSomeTokens; ++tokens) {
      BlockTiles tiles = kLongcatLite;
      tiles.chain_chunks = (tiles.chunk_count() + chains - 1) / chains;
      tiles.column_count = 500;
      const SomePlan plan(tiles, tokens, kMultiprocessors);
      EXPECT_EQ(plan.fits(), tiles.chain_count() <= 4) << chains << " chains";
      if (!plan.fits()) continue;
      EXPECT_GE(plan.form.ranks, tiles.chain_count());
      EXPECT_GE(plan.row_tiles * plan.form.rows, tokens);
      EXPECT_GT(plan.stage_count, 1);
      EXPECT_LE(plan.shared_bytes() + 1024, kBlockSharedBytes);
      EXPECT_LE(plan.sums_bytes(), plan.stage_count * plan.stage_bytes());
    }
  }
}

}  // namespace
}  // namespace ple::test
