#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace ple {

// Durations counted in buckets an eighth of a power of two wide: percentiles within 12.5 %, from
// 1 ns to centuries, in 4 KB and without locks. Recording and reading may run at the same time; a
// reader then sees some of the newest values.
class LatencyHistogram {
 private:
  static constexpr unsigned kSubBits = 3;
  static constexpr std::size_t kSubCount = std::size_t{1} << kSubBits;

 public:
  static constexpr std::size_t kBucketCount = (64 - kSubBits + 1) * kSubCount;

  void record(std::uint64_t nanoseconds) {
    counts_[bucket_of(nanoseconds)].fetch_add(1, std::memory_order_relaxed);
  }

  std::uint64_t count() const {
    std::uint64_t sum = 0;
    for (const auto& bucket_count : counts_) sum += bucket_count.load(std::memory_order_relaxed);
    return sum;
  }

  // The duration that `fraction` (0..1) of the recorded ones do not exceed, as the upper end of
  // its bucket; 0 when nothing was recorded.
  std::uint64_t percentile_ns(double fraction) const {
    const std::uint64_t total = count();
    const double rank = fraction * static_cast<double>(total);
    std::uint64_t below = 0;
    for (std::size_t bucket = 0; bucket < kBucketCount; ++bucket) {
      below += counts_[bucket].load(std::memory_order_relaxed);
      if (below != 0 && static_cast<double>(below) >= rank) return upper_end(bucket);
    }
    return 0;
  }

  // Calls visit(upper end in ns, count) for each bucket that is not empty, shortest first.
  template <class Visit>
  void for_each_bucket(Visit visit) const {
    for (std::size_t bucket = 0; bucket < kBucketCount; ++bucket) {
      const std::uint64_t bucket_count = counts_[bucket].load(std::memory_order_relaxed);
      if (bucket_count != 0) visit(upper_end(bucket), bucket_count);
    }
  }

 private:
  // Values below kSubCount have a bucket each; above, the leading bit chooses a group of kSubCount
  // buckets and the next kSubBits bits one of them.
  static std::size_t bucket_of(std::uint64_t value) {
    if (value < kSubCount) return static_cast<std::size_t>(value);
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kSubBits;
    return (shift + 1) * kSubCount + static_cast<std::size_t>((value >> shift) & (kSubCount - 1));
  }

  static std::uint64_t upper_end(std::size_t bucket) {
    if (bucket < kSubCount) return bucket;
    const unsigned shift = static_cast<unsigned>(bucket / kSubCount) - 1;
    const std::uint64_t leading = kSubCount + bucket % kSubCount;
    return (leading << shift) + ((std::uint64_t{1} << shift) - 1);
  }

  std::array<std::atomic<std::uint64_t>, kBucketCount> counts_{};
};

}  // namespace ple
