#include "ngram/pcg64.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace ple {
namespace {

std::vector<std::uint64_t> draws(std::uint64_t seed) {
  Pcg64 random(seed);
  return {random.next(), random.next(), random.next()};
}

std::vector<std::uint64_t> bounded(std::uint64_t seed, std::uint64_t bound, int count) {
  Pcg64 random(seed);
  std::vector<std::uint64_t> numbers;
  for (int i = 0; i < count; ++i) numbers.push_back(random.below(bound));
  return numbers;
}

// The self-check of the specification.
TEST(Pcg64, GivesTheFirstDoublesOfNumpy) {
  EXPECT_EQ(static_cast<double>(Pcg64(0).next() >> 11) * 0x1p-53, 0.6369616873214543);
  EXPECT_EQ(static_cast<double>(Pcg64(42).next() >> 11) * 0x1p-53, 0.7739560485559633);
}

// numpy.random.default_rng(seed).bit_generator.random_raw(3)
TEST(Pcg64, GivesTheRawStreamOfNumpyForOneAndTwoWordSeeds) {
  using Draws = std::vector<std::uint64_t>;
  EXPECT_EQ(draws(0), (Draws{0xa30febcfd9c2825f, 0x4510bdf882d9d721, 0x0a7d3da94ecde8b8}));
  EXPECT_EQ(draws(42), (Draws{0xc621fbcd16d92688, 0x705a5661a791ffc1, 0xdbcd12c26eda1624}));
  EXPECT_EQ(draws(10007), (Draws{0xd2c3f84026661e33, 0x0d4fb6969eb57435, 0x62e6e1c58c3bd72b}));
  EXPECT_EQ(draws(140098), (Draws{0xba3ecc29cf07c111, 0x8dac4bbe10610b7c, 0x550b7148777ff213}));
  EXPECT_EQ(draws((1ULL << 32) + 5),
            (Draws{0xc6323ec321deb8d1, 0x78814821c73a0583, 0xb22536d8e0ec17c0}));
  EXPECT_EQ(draws((1ULL << 61) + 12345),
            (Draws{0x64c94378805b0841, 0x1d26a1ade579dea1, 0x7a367b7ea2dac35d}));
}

// numpy.random.default_rng(7).integers(0, bound, size=n, dtype=int64); these bounds make Lemire's
// method reject draws.
TEST(Pcg64, DrawsBoundedNumbersLikeNumpy) {
  EXPECT_EQ(
      bounded(7, (1ULL << 62) + 1, 6),
      (std::vector<std::uint64_t>{2882744023523087011, 3577218852397956697, 1038584849328933328,
                                  1384272659328390225, 4028554210483014093, 3675833940291716696}));
  EXPECT_EQ(
      bounded(7, 3 * (1ULL << 61) + 7, 8),
      (std::vector<std::uint64_t>{4324116035284630520, 1557877273993399994, 2076408988992585339,
                                  6042831315724521145, 5680871422486561432, 5513750910437575048,
                                  3236953619344299375, 1926017253745835763}));
}

}  // namespace
}  // namespace ple
