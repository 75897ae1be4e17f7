#pragma once

#include <cstdint>

#include "kernels/block_product.hpp"

// How a step of few tokens is shared by the multiprocessors of a Hopper device, and what each of
// them keeps in its shared memory.

namespace ple::kernels {

inline constexpr std::int32_t kMaxFewTokens = 64;

// How the product is shared: blocks of a cluster, its slices of columns, and the rows of its tile.
struct FewForm {
  std::int32_t ranks = 0;
  std::int32_t slices = 0;
  std::int32_t rows = kMaxFewTokens;
  friend constexpr bool operator==(const FewForm&, const FewForm&) = default;
};
inline constexpr FewForm kFewForms[] = {{2, 3}, {4, 7}, {2, 8}};

// In shared memory of a block: x of its chains, which comes in pieces of some chunks, the stages of
// weights, and the sums of all chains in its share of the columns.
struct FewPlan {
  FewForm form;
  std::int32_t rows = 0;  // of a tile of x
  std::int32_t rank_chains = 0;
  std::int32_t rank_chunks = 0;
  std::int32_t piece_chunks = 0;
  std::int32_t sums_bytes = 0;
  std::int32_t stage_count = 0;

  static constexpr std::int32_t kSharedBytes = 226 << 10;
  static constexpr std::int32_t kAlignment = 1024;
  static constexpr std::int32_t kMaxStages = 24;
  static constexpr std::int32_t kMaxPieces = 8;
  static constexpr std::int32_t kMinPieceBytes = 12 << 10;   // of a copy that is not too small
  static constexpr std::int32_t kMinStagesBytes = 40 << 10;  // fewer do not keep the memory busy

  // The first form that has a cluster for all columns at once, or else the last.
  constexpr FewPlan(const BlockTiles& tiles, std::int32_t token_capacity,
                    std::int32_t multiprocessor_count)
      : rows((token_capacity + 7) / 8 * 8) {
    for (const FewForm& each : kFewForms) {
      form = each;
      rank_chains = (tiles.chain_count() + form.ranks - 1) / form.ranks;
      sums_bytes = tiles.chain_count() * rows * share_columns() * 4;
      rank_chunks = rank_chains * tiles.chain_chunks;
      piece_chunks = larger((rank_chunks + kMaxPieces - 1) / kMaxPieces,
                            (kMinPieceBytes + row_bytes() - 1) / row_bytes());
      const std::int32_t most = rank_chunks < kMaxStages ? rank_chunks : kMaxStages;
      const std::int32_t room =
          (kSharedBytes - kAlignment - x_bytes() - sums_bytes) / stage_bytes();
      stage_count = room < most ? room : most;
      // Not all multiprocessors can be in a cluster of more than two.
      const std::int32_t eighths = form.ranks > 2 ? 7 : 8;
      const std::int32_t clusters = multiprocessor_count / form.ranks * eighths / 8;
      if (fits() && clusters * form.slices >= tiles.slice_count()) return;
    }
  }

  constexpr bool fits() const {
    return rows > 0 && rows <= kMaxFewTokens && stage_count > 0 &&
           (!is_ring() || stage_count * stage_bytes() >= kMinStagesBytes);
  }
  constexpr std::int32_t share_columns() const { return form.slices * kSliceColumns / form.ranks; }
  constexpr std::int32_t stage_bytes() const { return form.slices * kSliceTileBytes; }
  // Whether a stage is used again.
  constexpr bool is_ring() const { return stage_count < rank_chunks; }
  constexpr std::int32_t row_bytes() const { return rows * kTileRowBytes; }  // x of a chunk
  constexpr std::int32_t x_bytes() const { return rank_chunks * row_bytes(); }
  constexpr std::int32_t shared_bytes() const {
    // The last tile of x is read as if it had all rows.
    constexpr std::int32_t kLeast = kMaxFewTokens * kTileRowBytes;
    const std::int32_t rest = stage_count * stage_bytes() + sums_bytes;
    return kAlignment + x_bytes() + larger(rest, kLeast);
  }

 private:
  static constexpr std::int32_t larger(std::int32_t a, std::int32_t b) { return a < b ? b : a; }
};

// The same where x is not small: a block has one chain of a tile of rows, and x passes through the
// stages with the weights.
inline constexpr FewForm kSomeForms[] = {{2, 8},
                                         {4, 7},
                                         {2, 8, kMaxBlockRows},
                                         {2, 15, kMaxBlockRows},
                                         {4, 7, kMaxBlockRows},
                                         {4, 13, kMaxBlockRows}};
inline constexpr std::int32_t kMaxSomeTokens = 2 * kMaxBlockRows;

struct SomePlan {
  FewForm form;
  std::int32_t row_tiles = 0;
  std::int32_t stage_count = 0;

  static constexpr std::int32_t kMaxStages = 10;

  // The first form that has a cluster for everything at once, if there is one.
  constexpr SomePlan(const BlockTiles& tiles, std::int32_t token_capacity,
                     std::int32_t multiprocessor_count) {
    if (token_capacity > kMaxSomeTokens) return;
    for (const FewForm& each : kSomeForms) {
      row_tiles = (token_capacity + each.rows - 1) / each.rows;
      const std::int32_t clusters = (tiles.slice_count() + each.slices - 1) / each.slices;
      // Not all multiprocessors can be in a cluster of more than two.
      const std::int32_t sixteenths = each.ranks > 2 ? 15 : 16;
      const std::int32_t resident = multiprocessor_count / each.ranks * sixteenths / 16;
      if (tiles.chain_count() > each.ranks || clusters * row_tiles > resident) continue;
      form = each;
      stage_count = (FewPlan::kSharedBytes - FewPlan::kAlignment) / stage_bytes();
      if (stage_count > kMaxStages) stage_count = kMaxStages;
      return;
    }
  }

  constexpr bool fits() const { return form.ranks != 0; }
  constexpr std::int32_t rows_bytes() const { return form.rows * kTileRowBytes; }
  constexpr std::int32_t stage_bytes() const {
    return rows_bytes() + form.slices * kSliceTileBytes;
  }
  // Of its chain all, and of the others its share: where the stages were.
  constexpr std::int32_t sums_bytes() const {
    return (2 * form.ranks - 1) * form.rows * form.slices * kSliceColumns / form.ranks * 4;
  }
  constexpr std::int32_t shared_bytes() const {
    return FewPlan::kAlignment + stage_count * stage_bytes();
  }
};

// Whether a step takes the first of its two plans.
constexpr bool takes_few(const FewPlan& few, const SomePlan& some) {
  constexpr std::int32_t kSmallRows = 32;
  return few.fits() && (few.rows <= kSmallRows || !some.fits());
}

}  // namespace ple::kernels
