#include <immintrin.h>

#include <array>
#include <cstdint>

#include "base/number_formats.hpp"
#include "kernels/e4m3_panel_cpu.hpp"
#include "kernels/projection.hpp"

// Highway 1.0 has no lookup of bytes in 128: this decoding is written with intrinsics.
#define PLE_TARGET __attribute__((target("avx512f,avx512bw,avx512vbmi")))

namespace ple::kernels {

namespace {

constexpr std::int32_t kPairLength = 2 * PackedMatrix::kPanelRows;
constexpr std::int32_t kBlockLength = 2 * kScaleBlock;  // of a pair's elements in a block of rows

// The bf16 bits of the codes without a sign, by their bytes.
struct ScaleTable {
  alignas(64) std::uint8_t low[128];
  alignas(64) std::uint8_t high[128];
};

std::array<ScaleTable, 256> make_tables() {
  std::array<ScaleTable, 256> tables;
  for (int scale = 0; scale < 256; ++scale) {
    for (int code = 0; code < 128; ++code) {
      const std::uint16_t bits = f32_to_bf16(e4m3_to_f32(static_cast<std::uint8_t>(code)) *
                                             e8m0_to_f32(static_cast<std::uint8_t>(scale)));
      ScaleTable& table = tables[static_cast<std::size_t>(scale)];
      table.low[code] = static_cast<std::uint8_t>(bits & 0xFF);
      table.high[code] = static_cast<std::uint8_t>(bits >> 8);
    }
  }
  return tables;
}

PLE_TARGET void decode_block(const std::uint8_t* codes, const ScaleTable& table,
                             std::uint16_t* out) {
  const __m512i low[2] = {_mm512_load_si512(table.low), _mm512_load_si512(table.low + 64)};
  const __m512i high[2] = {_mm512_load_si512(table.high), _mm512_load_si512(table.high + 64)};
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  // Bytes are interleaved within each sixteen.
  const __m512i order = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
  for (std::int32_t pair = 0; pair < kScaleBlock / 2; ++pair) {
    const __m512i code = _mm512_maskz_permutexvar_epi64(0xFF, order, _mm512_loadu_si512(codes));
    const __m512i low_bytes = _mm512_permutex2var_epi8(low[0], code, low[1]);
    const __m512i magnitude = _mm512_permutex2var_epi8(high[0], code, high[1]);
    const __m512i high_bytes = _mm512_or_si512(magnitude, _mm512_and_si512(code, sign));
    _mm512_storeu_si512(out, _mm512_unpacklo_epi8(low_bytes, high_bytes));
    _mm512_storeu_si512(out + kBlockLength / 2, _mm512_unpackhi_epi8(low_bytes, high_bytes));
    codes += kPairLength;
    out += kPairLength;
  }
}

void decode(const std::uint8_t* codes, std::uint8_t scale, std::uint16_t* out) {
  static const std::array<ScaleTable, 256> tables = make_tables();
  decode_block(codes, tables[scale], out);
}

}  // namespace

DecodeE4m3Block decode_e4m3_block_avx512vbmi() {
  return __builtin_cpu_supports("avx512vbmi") ? decode : nullptr;
}

}  // namespace ple::kernels
