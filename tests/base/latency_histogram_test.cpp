#include "base/latency_histogram.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "support/random.hpp"

namespace ple {
namespace {

TEST(LatencyHistogram, IsZeroWhenNothingWasRecorded) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.percentile_ns(0.5), 0U);
}

TEST(LatencyHistogram, KeepsTheLargestValue) {
  LatencyHistogram histogram;
  histogram.record(UINT64_MAX);
  EXPECT_EQ(histogram.percentile_ns(1.0), UINT64_MAX);
}

TEST(LatencyHistogram, PercentilesAreWithinAnEighthOfTheExactOnes) {
  test::Random random;
  LatencyHistogram histogram;
  std::vector<std::uint64_t> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(random.bits() >> random.between(0, 63));
    histogram.record(values.back());
  }
  std::sort(values.begin(), values.end());
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = static_cast<std::size_t>(fraction * static_cast<double>(values.size())) - 1;
    const std::uint64_t exact = values[rank];
    const std::uint64_t found = histogram.percentile_ns(fraction);
    EXPECT_GE(found, exact) << fraction;
    EXPECT_LE(found - exact, exact / 8) << fraction;
  }
}

TEST(LatencyHistogram, BucketsAscendAndHoldEveryValue) {
  LatencyHistogram histogram;
  for (const std::uint64_t value : {100U, 101U, 5U, 7000U}) histogram.record(value);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> buckets;
  histogram.for_each_bucket(
      [&](std::uint64_t ns_max, std::uint64_t count) { buckets.emplace_back(ns_max, count); });
  EXPECT_THAT(buckets, testing::ElementsAre(testing::Pair(5, 1), testing::Pair(103, 2),
                                            testing::Pair(7167, 1)));
}

}  // namespace
}  // namespace ple
