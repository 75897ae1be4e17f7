#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "bench/ceilings.hpp"

namespace pleiades::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kThreadBytes = std::uint64_t{256} << 20;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
constexpr int kPasses = 9;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PLE_TARGET_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLE_TARGET_CLONES
#endif

// Reads every byte, as kStreams streams side by side; the sum is only there so that the reads are.
PLE_TARGET_CLONES std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kStreams = 4;
  constexpr std::size_t kLanes = 16;
  const std::size_t stride = count / kStreams;
  std::uint64_t sums[kStreams][kLanes] = {};
  for (std::size_t i = 0; i < stride; i += kLanes) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const std::uint64_t* const line = words + stream * stride + i;
      for (std::size_t lane = 0; lane < kLanes; ++lane) sums[stream][lane] += line[lane];
    }
  }
  std::uint64_t total = 0;
  for (const auto& stream_sums : sums) {
    for (const std::uint64_t sum : stream_sums) total += sum;
  }
  return total;
}

// Words in huge pages, where the system has them, like the weights that the figure is held against.
class Words {
 public:
  Words() : memory_(std::make_unique_for_overwrite<std::byte[]>(kThreadBytes + kHugePageBytes)) {
    void* begin = memory_.get();
    std::size_t space = kThreadBytes + kHugePageBytes;
    std::align(kHugePageBytes, kThreadBytes, begin, space);
    ::madvise(begin, kThreadBytes, MADV_HUGEPAGE);
    std::memset(begin, 1, kThreadBytes);
    begin_ = static_cast<const std::uint64_t*>(begin);
  }
  const std::uint64_t* begin() const { return begin_; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  const std::uint64_t* begin_;
};

}  // namespace

double measure_read_bandwidth(std::int32_t thread_count) {
  const auto threads_wanted = static_cast<std::size_t>(std::max(thread_count, 1));
  std::vector<double> pass_seconds(kPasses);
  std::vector<std::uint64_t> sums(threads_wanted);
  Clock::time_point pass_begin;
  std::barrier begin(static_cast<std::ptrdiff_t>(threads_wanted),
                     [&]() noexcept { pass_begin = Clock::now(); });
  std::size_t pass = 0;
  std::barrier end(static_cast<std::ptrdiff_t>(threads_wanted), [&]() noexcept {
    pass_seconds[pass++] = std::chrono::duration<double>(Clock::now() - pass_begin).count();
  });
  const auto work = [&](std::size_t thread_index) {
    const Words words;
    for (int i = 0; i < kPasses; ++i) {
      begin.arrive_and_wait();
      sums[thread_index] += sum_words(words.begin(), kThreadBytes / sizeof(std::uint64_t));
      end.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < threads_wanted; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
  const double best = *std::ranges::min_element(pass_seconds);
  return static_cast<double>(kThreadBytes) * static_cast<double>(threads_wanted) / best;
}

}  // namespace pleiades::cli
