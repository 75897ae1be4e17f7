#pragma once

#include <bit>
#include <cstdint>

namespace pleiades::cli {

// Word `index` of a stream of reproducible noise: a pure function of both, so that any part of it
// can be made, or checked, without the rest.
inline std::uint64_t counter_word(std::uint64_t stream, std::uint64_t index) {
  std::uint64_t x = (index + 1) * 0x9E3779B97F4A7C15 + stream * 0xD1342543DE82EF95;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9;
  x ^= x >> 27;
  x *= 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

// The upper 24 bits of a word as an f32 in [-1, 1).
inline float unit_noise(std::uint64_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 40) - (1 << 23)) * 0x1p-23F;
}

// To the nearest bfloat16, ties to even. Not for NaN.
inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

inline float from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace pleiades::cli
