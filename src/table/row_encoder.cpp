#include "table/row_encoder.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/assert.hpp"
#include "base/number_formats.hpp"

namespace ple {

namespace {

constexpr float kE4m3Max = 448.0F;
constexpr float kE2m1Max = 6.0F;
constexpr float kInt8Max = 127.0F;
constexpr std::size_t kNvfp4BlockLength = 16;

// The scale that takes the largest magnitude of values to code_max.
float row_scale(std::span<const std::uint16_t> values, float code_max) {
  const float largest = bf16_to_f32(largest_magnitude(values));
  return largest == 0.0F ? 1.0F : largest / code_max;
}

// To the nearest whole number, ties to even, of up to 127 in magnitude.
std::int8_t round_to_int8(float value) {
  // At 1.5 * 2^23 the last place of a number is 1.
  const float shifted = std::clamp(value, -kInt8Max, kInt8Max) + 0x1.8p23F;
  return static_cast<std::int8_t>(std::bit_cast<std::uint32_t>(shifted) & 0xFF);
}

template <class Encode>
void encode_scaled(std::span<const std::uint16_t> values, float scale, std::byte* out,
                   Encode encode) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    out[i] = static_cast<std::byte>(encode(bf16_to_f32(values[i]) / scale));
  }
  std::memcpy(out + values.size(), &scale, sizeof scale);
}

void encode_nvfp4(std::span<const std::uint16_t> values, float table_scale, std::byte* out) {
  std::byte* scales = out + values.size() / 2;
  for (std::size_t begin = 0; begin < values.size(); begin += kNvfp4BlockLength) {
    const auto block = values.subspan(begin).first<kNvfp4BlockLength>();
    const float largest = bf16_to_f32(largest_magnitude(block));
    const std::uint8_t scale_code = f32_to_e4m3(largest / kE2m1Max / table_scale);
    const float scale = e4m3_to_f32(scale_code) * table_scale;
    std::array<std::uint8_t, kNvfp4BlockLength> codes{};
    if (scale != 0.0F) {  // a block too small for its scale becomes zeros
      for (std::size_t i = 0; i < codes.size(); ++i) {
        codes[i] = f32_to_e2m1(bf16_to_f32(block[i]) / scale);
      }
    }
    for (std::size_t i = 0; i < codes.size(); i += 2) {
      out[(begin + i) / 2] = static_cast<std::byte>(codes[i] | codes[i + 1] << 4);
    }
    scales[begin / kNvfp4BlockLength] = static_cast<std::byte>(scale_code);
  }
}

}  // namespace

bool can_encode(RowFormat format) {
  return format == RowFormat::bf16 || format == RowFormat::fp8_e4m3_row ||
         format == RowFormat::int8_row || format == RowFormat::nvfp4;
}

void encode_row(const RowEncoding& encoding, const std::uint16_t* values, std::byte* out) {
  PLE_ASSERT(can_encode(encoding.format));
  const std::span row(values, static_cast<std::size_t>(encoding.dim));
  switch (encoding.format) {
    case RowFormat::fp8_e4m3_row:
      return encode_scaled(row, row_scale(row, kE4m3Max), out, f32_to_e4m3);
    case RowFormat::int8_row:
      return encode_scaled(row, row_scale(row, kInt8Max), out, round_to_int8);
    case RowFormat::nvfp4:
      return encode_nvfp4(row, encoding.scale, out);
    default:
      std::memcpy(out, values, row.size_bytes());
  }
}

std::uint16_t largest_magnitude(std::span<const std::uint16_t> values) {
  std::uint16_t largest = 0;
  for (const std::uint16_t bits : values) {
    largest = std::max(largest, static_cast<std::uint16_t>(bits & 0x7FFF));
  }
  return largest;
}

float nvfp4_table_scale(float largest) {
  return largest == 0.0F ? 1.0F : largest / (kE4m3Max * kE2m1Max);
}

}  // namespace ple
