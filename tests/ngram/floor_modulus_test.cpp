#include "ngram/floor_modulus.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "support/random.hpp"

namespace ple {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::uint32_t floor_mod(std::int64_t number, std::uint32_t divisor) {
  const std::int64_t remainder = number % std::int64_t{divisor};
  return static_cast<std::uint32_t>(remainder < 0 ? remainder + divisor : remainder);
}

TEST(FloorModulus, AgreesWithDivisionAtTheEdges) {
  const std::vector<std::uint32_t> divisors = {
      2,          3,          4,          5,          7,          127,
      128,        129,        65535,      65536,      65537,      20'000'003,
      0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFB, 0xFFFFFFFE, 0xFFFFFFFF};
  for (const std::uint32_t divisor : divisors) {
    const FloorModulus modulus(divisor);
    std::vector<std::int64_t> numbers = {0, 1, -1, kLeast, kLeast + 1, kMost, kMost - 1};
    // The multiples next to the ends of the range, and their neighbours.
    for (const std::int64_t end : {kLeast, std::int64_t{0}, kMost}) {
      const std::int64_t multiple = end / std::int64_t{divisor} * std::int64_t{divisor};
      for (const std::int64_t step : {-1, 0, 1}) {
        if ((step < 0 && multiple == kLeast) || (step > 0 && multiple == kMost)) continue;
        numbers.push_back(multiple + step);
      }
    }
    for (const std::int64_t number : numbers) {
      EXPECT_EQ(modulus(number), floor_mod(number, divisor)) << number << " mod " << divisor;
    }
  }
}

TEST(FloorModulus, AgreesWithDivisionOnRandomNumbersIncludingBit63) {
  test::Random random;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto divisor = static_cast<std::uint32_t>(random.bits() >> (32 + random.bits() % 31));
    const auto number = static_cast<std::int64_t>(random.bits()) >> (random.bits() % 64);
    if (divisor < 2) continue;
    ASSERT_EQ(FloorModulus(divisor)(number), floor_mod(number, divisor))
        << number << " mod " << divisor;
  }
}

}  // namespace
}  // namespace ple
