#include "ngram/primes.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "support/random.hpp"

namespace ple {
namespace {

TEST(Primes, AgreeWithASieve) {
  constexpr std::uint32_t kEnd = 300'000;
  std::vector<bool> composite(kEnd);
  for (std::uint32_t n = 2; n < kEnd; ++n) {
    EXPECT_EQ(is_prime(n), !composite[n]) << n;
    for (std::uint64_t multiple = std::uint64_t{n} * n; multiple < kEnd; multiple += n) {
      composite[static_cast<std::size_t>(multiple)] = true;
    }
  }
}

TEST(Primes, AgreeWithTrialDivisionInAllOf32Bits) {
  test::Random random;
  for (int i = 0; i < 2000; ++i) {
    const auto number = static_cast<std::uint32_t>(random.bits()) | 1;
    bool prime = number > 1;
    for (std::uint64_t d = 3; d * d <= number && prime; d += 2) prime = number % d != 0;
    ASSERT_EQ(is_prime(number), prime) << number;
  }
}

TEST(Primes, AreNotFooledByStrongPseudoprimes) {
  // Composites that pass Miller-Rabin for base 2, or for 2 and 7, or for 2, 3, 5 and 7.
  for (const std::uint32_t number : {2047U, 3277U, 4033U, 314821U, 3215031751U, 2269093U}) {
    EXPECT_FALSE(is_prime(number)) << number;
  }
}

TEST(Primes, NextIsStrictlyGreaterAndEndsAt32Bits) {
  EXPECT_EQ(next_prime(0), 2U);
  EXPECT_EQ(next_prime(2), 3U);
  EXPECT_EQ(next_prime(19'999'999), 20'000'003U);
  EXPECT_EQ(next_prime(4294967290), 4294967291U);
  EXPECT_EQ(next_prime(4294967291), 0U);
}

}  // namespace
}  // namespace ple
