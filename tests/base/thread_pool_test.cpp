#include "base/thread_pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

namespace ple {
namespace {

std::unique_ptr<ThreadPool> make_pool(std::int32_t thread_count) {
  auto pool = ThreadPool::create(thread_count);
  EXPECT_TRUE(pool.is_ok()) << pool.status().message();
  return std::move(pool).value();
}

class ThreadPoolOf : public testing::TestWithParam<std::int32_t> {};

TEST_P(ThreadPoolOf, CallsEveryIndexOnce) {
  const auto pool = make_pool(GetParam());
  EXPECT_EQ(pool->thread_count(), GetParam());
  for (const std::int64_t count : {0, 1, 2, 3, 17, 1000}) {
    std::vector<int> calls(static_cast<std::size_t>(count));
    pool->parallel_for(count,
                       [&](std::int64_t index) { ++calls[static_cast<std::size_t>(index)]; });
    EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), count);
  }
}

TEST_P(ThreadPoolOf, RangesTileTheCount) {
  const auto pool = make_pool(GetParam());
  std::vector<int> calls(777);
  pool->parallel_ranges(777, [&](std::int64_t begin, std::int64_t end) {
    EXPECT_LT(begin, end);
    for (std::int64_t i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
  });
  EXPECT_EQ(std::count(calls.begin(), calls.end(), 1), 777);
}

TEST_P(ThreadPoolOf, WritesOfOneCallAreSeenByTheNext) {
  const auto pool = make_pool(GetParam());
  std::vector<std::int64_t> values(64, 0);
  for (int round = 0; round < 2000; ++round) {
    // Another thread may get an index in every round.
    pool->parallel_for(64, [&](std::int64_t index) { ++values[static_cast<std::size_t>(index)]; });
  }
  EXPECT_EQ(std::accumulate(values.begin(), values.end(), std::int64_t{0}), 64 * 2000);
}

TEST_P(ThreadPoolOf, CallersTakeTurns) {
  const auto pool = make_pool(GetParam());
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        std::vector<std::int64_t> squares(8);  // complete when the call returns
        pool->parallel_for(8,
                           [&](std::int64_t i) { squares[static_cast<std::size_t>(i)] = i * i; });
        sum += std::accumulate(squares.begin(), squares.end(), std::int64_t{0});
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 200 * 140);
}

INSTANTIATE_TEST_SUITE_P(Threads, ThreadPoolOf, testing::Values(1, 2, 3, 8));

TEST(ThreadPool, UsesItsThreads) {
  const auto pool = make_pool(3);
  std::mutex mutex;
  std::condition_variable all_here;
  std::set<std::thread::id> threads;
  // Each of three indices waits for the two others: only three threads can finish this.
  pool->parallel_for(3, [&](std::int64_t) {
    std::unique_lock<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
    all_here.notify_all();
    all_here.wait(lock, [&] { return threads.size() == 3; });
  });
  EXPECT_EQ(threads.size(), 3U);
  EXPECT_EQ(threads.count(std::this_thread::get_id()), 1U);
}

TEST(ThreadPool, SeveralPoolsLiveSideBySide) {
  const auto first = make_pool(2);
  const auto second = make_pool(3);
  std::atomic<std::int64_t> sum{0};
  first->parallel_for(10, [&](std::int64_t) {
    second->parallel_for(10, [&](std::int64_t index) { sum += index; });
  });
  EXPECT_EQ(sum, 450);
}

TEST(ThreadPool, RefusesCountsThatAreNone) {
  EXPECT_EQ(ThreadPool::create(-1).status().code(), StatusCode::invalid_argument);
  EXPECT_EQ(ThreadPool::create(1 << 20).status().code(), StatusCode::invalid_argument);
  EXPECT_GE(make_pool(0)->thread_count(), 1);
}

}  // namespace
}  // namespace ple
