#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace ple {

// bfloat16: the upper half of an f32.
inline float bf16_to_f32(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest even; NaN stays NaN.
inline std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// An f32 rounded to the nearest bfloat16: rn_bf16 of the specification.
inline float round_to_bf16(float value) { return bf16_to_f32(f32_to_bf16(value)); }

// The same of a double, rounded once: the way over f32 rounds to odd, which keeps what the second
// rounding needs to know.
inline float f64_rounded_to_bf16(double value) {
  float nearest = static_cast<float>(value);
  if (std::isfinite(nearest) && static_cast<double>(nearest) != value) {
    const auto bits = std::bit_cast<std::uint32_t>(nearest);
    const bool is_beyond = std::fabs(static_cast<double>(nearest)) > std::fabs(value);
    nearest = std::bit_cast<float>((is_beyond ? bits - 1 : bits) | 1);
  }
  return round_to_bf16(nearest);
}

// IEEE binary16.
inline float f16_to_f32(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1F;
  const std::uint32_t mantissa = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000 | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// FP8 E4M3 (OCP "fn": no infinities, 0x7F and 0xFF are NaN, largest 448).
inline float e4m3_to_f32(std::uint8_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80) << 24;
  const std::uint32_t exponent = (bits >> 3) & 0xF;
  const std::uint32_t mantissa = bits & 0x7;
  if (exponent == 0xF && mantissa == 0x7) return std::bit_cast<float>(sign | 0x7FC00000);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-9F;
    return sign != 0 ? -magnitude : magnitude;
  }
  return std::bit_cast<float>(sign | ((exponent + 120) << 23) | (mantissa << 20));
}

// To the nearest E4M3, ties to even; magnitudes above 448 become 448. Not for NaN.
inline std::uint8_t f32_to_e4m3(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 24) & 0x80;
  const float magnitude = std::min(std::fabs(value), 448.0F);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  // Below 2^-6 the codes are multiples of 2^-9, the last place of a number at 2^14.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(magnitude + 0x1p14F) - std::bit_cast<std::uint32_t>(0x1p14F);
  const std::uint32_t normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3);
  return static_cast<std::uint8_t>(sign | (magnitude < 0x1p-6F ? small : normal));
}

// E8M0: a power of two; byte 0 is 2^-127 (a denormal f32), 255 is NaN.
inline float e8m0_to_f32(std::uint8_t bits) {
  if (bits == 0) return std::bit_cast<float>(std::uint32_t{0x00400000});
  if (bits == 0xFF) return std::bit_cast<float>(std::uint32_t{0x7FC00000});
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 23);
}

// E2M1, the low four bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
inline float e2m1_to_f32(std::uint8_t bits) {
  constexpr float kMagnitude[8] = {0.0F, 0.5F, 1.0F, 1.5F, 2.0F, 3.0F, 4.0F, 6.0F};
  const float magnitude = kMagnitude[bits & 7];
  return (bits & 8) != 0 ? -magnitude : magnitude;
}

// To the nearest E2M1, ties to even; magnitudes above 6 become 6. Not for NaN.
inline std::uint8_t f32_to_e2m1(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 28) & 8;
  const float magnitude = std::min(std::fabs(value), 6.0F);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  // Below 1 the codes are multiples of 1/2, the last place of a number at 2^22.
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(magnitude + 0x1p22F) - std::bit_cast<std::uint32_t>(0x1p22F);
  const std::uint32_t normal = ((bits + 0x1FFFFF + ((bits >> 22) & 1)) >> 22) - (126 << 1);
  return static_cast<std::uint8_t>(sign | (magnitude < 1.0F ? small : normal));
}

}  // namespace ple
