#include "base/number_formats.hpp"

#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"

namespace ple {
namespace {

// The code whose value is nearest; of two that are equally near, the even one. Above the largest
// code all numbers are alike.
template <class Decode>
std::uint8_t nearest_code(float magnitude, std::uint8_t code_count, Decode decode) {
  const double number = std::min(magnitude, 1024.0F);
  std::uint8_t best = 0;
  double best_distance = std::numeric_limits<double>::infinity();
  for (std::uint8_t code = 0; code < code_count; ++code) {
    const double distance = std::abs(double{decode(code)} - number);
    if (distance < best_distance || (distance == best_distance && code % 2 == 0)) {
      best = code;
      best_distance = distance;
    }
  }
  return best;
}

// Finite numbers with 12 significant bits: finer than halfway between two codes.
template <class Check>
void for_each_number(Check check) {
  for (std::uint32_t bits = 0; bits < 0x7F800000; bits += 0x1000) {
    check(std::bit_cast<float>(bits), false);
    check(std::bit_cast<float>(bits | 0x80000000), true);
  }
}

TEST(NumberFormats, E4m3IsTheNearestCodeAndSaturates) {
  for_each_number([](float value, bool is_negative) {
    const auto sign = static_cast<std::uint8_t>(is_negative ? 0x80 : 0);
    ASSERT_EQ(f32_to_e4m3(value), sign | nearest_code(std::abs(value), 0x7F, e4m3_to_f32)) << value;
  });
}

TEST(NumberFormats, E2m1IsTheNearestCodeAndSaturates) {
  for_each_number([](float value, bool is_negative) {
    const auto sign = static_cast<std::uint8_t>(is_negative ? 8 : 0);
    ASSERT_EQ(f32_to_e2m1(value), sign | nearest_code(std::abs(value), 8, e2m1_to_f32)) << value;
  });
}

}  // namespace
}  // namespace ple
