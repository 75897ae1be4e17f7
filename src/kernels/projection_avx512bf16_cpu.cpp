#include "kernels/projection_avx512bf16_cpu.hpp"

#include <immintrin.h>

#include <cstring>

// Highway 1.0 has no target with VDPBF16PS, so this one kernel is written with intrinsics.
#define PLE_TARGET __attribute__((target("avx512f,avx512bf16")))

namespace ple::kernels {

namespace {

constexpr int kPanelRows = 64;
constexpr int kVectorRows = 16;
constexpr int kVectorCount = kPanelRows / kVectorRows;
constexpr int kTileTokens = 6;  // 24 sums, 4 weight vectors and a broadcast fill the registers

PLE_TARGET inline __m512bh load_pairs(const std::uint16_t* from) {
  return reinterpret_cast<__m512bh>(_mm512_loadu_si512(from));
}

PLE_TARGET inline __m512bh broadcast_pair(const std::uint16_t* from) {
  std::int32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(pair));
}

template <int kTokens>
PLE_TARGET void tile_product(const std::uint16_t* panel, std::int32_t pair_count,
                             const std::uint16_t* x, std::int64_t x_stride, float* product) {
  __m512 sum[kTokens][kVectorCount];
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectorCount; ++v) sum[t][v] = _mm512_setzero_ps();
  }
  for (std::int32_t pair = 0; pair < pair_count; ++pair) {
    __m512bh w[kVectorCount];
    for (int v = 0; v < kVectorCount; ++v) {
      w[v] = load_pairs(panel + (std::int64_t{pair} * kPanelRows + v * kVectorRows) * 2);
    }
    for (int t = 0; t < kTokens; ++t) {
      const __m512bh x_pair = broadcast_pair(x + t * x_stride + std::int64_t{pair} * 2);
      for (int v = 0; v < kVectorCount; ++v) sum[t][v] = _mm512_dpbf16_ps(sum[t][v], w[v], x_pair);
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectorCount; ++v) {
      _mm512_storeu_ps(product + t * kPanelRows + v * kVectorRows, sum[t][v]);
    }
  }
}

void panel_product(const std::uint16_t* panel, std::int32_t pair_count, const std::uint16_t* x,
                   std::int64_t x_stride, std::int32_t token_count, float* product) {
  constexpr decltype(&tile_product<1>) kTileProduct[kTileTokens] = {
      tile_product<1>, tile_product<2>, tile_product<3>,
      tile_product<4>, tile_product<5>, tile_product<6>};
  // Tiles of nearly equal size: a last tile of one token would cost as much as one of four.
  std::int32_t tile_count = (token_count + kTileTokens - 1) / kTileTokens;
  for (std::int32_t token = 0; token < token_count; --tile_count) {
    const std::int32_t tokens = (token_count - token + tile_count - 1) / tile_count;
    kTileProduct[tokens - 1](panel, pair_count, x + token * x_stride, x_stride,
                             product + std::int64_t{token} * kPanelRows);
    token += tokens;
  }
}

}  // namespace

PanelProductBf16 panel_product_avx512bf16() {
  return __builtin_cpu_supports("avx512bf16") ? panel_product : nullptr;
}

}  // namespace ple::kernels
