#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "kernels/panel_product.hpp"
#include "kernels/projection.hpp"

// Highway 1.0 has no target with VDPBF16PS, so this one kernel is written with intrinsics.
#define PLE_TARGET __attribute__((target("avx512f,avx512bf16")))

namespace ple::kernels {

namespace {

using Args = PanelProductArgs<std::uint16_t>;

constexpr int kPanelRows = PackedMatrix::kPanelRows;
constexpr int kVectorRows = 16;
constexpr int kVectorCount = kPanelRows / kVectorRows;
constexpr int kTileTokens = 6;     // 24 sums, 4 weight vectors and a broadcast fill the registers
constexpr int kLineElements = 32;  // bf16 elements of a cache line: one weight vector

PLE_TARGET inline __m512bh load_pairs(const std::uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

PLE_TARGET inline __m512bh broadcast_pair(const std::uint16_t* from) {
  std::int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

// The products of kTokens tokens from token_begin on. Meanwhile reads ahead_lines cache lines of
// `ahead` for each pair, one after the other.
template <int kTokens>
PLE_TARGET void tile_product(const Args& args, std::int32_t token_begin, const std::uint16_t* ahead,
                             int ahead_lines) {
  const std::uint16_t* x = args.x + token_begin * args.x_stride;
  const std::uint16_t* w = args.panel;
  float* product = args.product + std::int64_t{token_begin} * kPanelRows;
  const bool is_summed_further = args.is_continued && args.is_one_block;
  for (std::int32_t pair_begin = 0; pair_begin < args.pair_count; pair_begin += args.block_pairs) {
    const std::int32_t pair_end = std::min(pair_begin + args.block_pairs, args.pair_count);
    const bool is_added = !is_summed_further && (args.is_continued || pair_begin != 0);
    __m512 sum[kTokens][kVectorCount];
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kVectorCount; ++v) {
        sum[t][v] = is_summed_further ? _mm512_loadu_ps(product + t * kPanelRows + v * kVectorRows)
                                      : _mm512_setzero_ps();
      }
    }
    for (std::int32_t pair = pair_begin; pair < pair_end; ++pair, x += 2, w += 2 * kPanelRows) {
      for (int line = 0; line < ahead_lines; ++line, ahead += kLineElements) {
        _mm_prefetch(ahead, _MM_HINT_T1);
      }
      __m512bh w_pairs[kVectorCount];
      for (int v = 0; v < kVectorCount; ++v) w_pairs[v] = load_pairs(w + 2 * kVectorRows * v);
      for (int t = 0; t < kTokens; ++t) {
        const __m512bh x_pair = broadcast_pair(x + t * args.x_stride);
        for (int v = 0; v < kVectorCount; ++v) {
          sum[t][v] = _mm512_dpbf16_ps(sum[t][v], w_pairs[v], x_pair);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kVectorCount; ++v) {
        float* to = product + t * kPanelRows + v * kVectorRows;
        _mm512_storeu_ps(to, is_added ? _mm512_add_ps(_mm512_loadu_ps(to), sum[t][v]) : sum[t][v]);
      }
    }
  }
}

void panel_product(const Args& args) {
  constexpr decltype(&tile_product<1>) kTileProduct[kTileTokens] = {
      tile_product<1>, tile_product<2>, tile_product<3>,
      tile_product<4>, tile_product<5>, tile_product<6>};
  // Tiles of nearly equal size: a last tile of one token would cost as much as one of four.
  std::int32_t tile_count = (args.token_count + kTileTokens - 1) / kTileTokens;
  // The next panel is read ahead by up to four tiles, so that memory never waits for arithmetic.
  const int ahead_lines =
      kVectorCount / std::clamp(tile_count == 3 ? 2 : tile_count, 1, kVectorCount);
  const std::uint16_t* ahead = args.next_panel;
  int lines_left = ahead == nullptr ? 0 : kVectorCount;
  for (std::int32_t token = 0; token < args.token_count; --tile_count) {
    const std::int32_t tokens = (args.token_count - token + tile_count - 1) / tile_count;
    const int lines = std::min(ahead_lines, lines_left);
    kTileProduct[tokens - 1](args, token, ahead, lines);
    ahead += std::int64_t{lines} * args.pair_count * kLineElements;
    lines_left -= lines;
    token += tokens;
  }
}

}  // namespace

PanelProductBf16 panel_product_avx512bf16() {
  return __builtin_cpu_supports("avx512bf16") ? panel_product : nullptr;
}

}  // namespace ple::kernels
