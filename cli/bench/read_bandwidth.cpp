#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "bench/ceilings.hpp"

namespace pleiades::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kThreadBytes = std::uint64_t{256} << 20;
constexpr int kPasses = 9;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define PLE_TARGET_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PLE_TARGET_CLONES
#endif

// Reads every byte; the sum is only there so that the reads are. Eight chains hide the adder.
PLE_TARGET_CLONES std::uint64_t sum_words(const std::uint64_t* words, std::size_t count) {
  constexpr std::size_t kLanes = 64;
  std::uint64_t sums[kLanes] = {};
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) sums[lane] += words[i + lane];
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

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
    const std::vector<std::uint64_t> words(kThreadBytes / sizeof(std::uint64_t), thread_index + 1);
    for (int i = 0; i < kPasses; ++i) {
      begin.arrive_and_wait();
      sums[thread_index] += sum_words(words.data(), words.size());
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
