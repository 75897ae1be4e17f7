#include "base/thread_pool.hpp"

#include <sched.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/start_thread.hpp"

namespace ple {

namespace {

constexpr std::uint32_t kJoinedMask = 0xFFF;
constexpr std::uint32_t kOpen = 0x1000;
constexpr std::uint32_t kGenerationUnit = 0x2000;
constexpr std::uint32_t kGenerationMask = ~(kGenerationUnit - 1);
constexpr std::int32_t kThreadCountMax = static_cast<std::int32_t>(kJoinedMask);
constexpr int kSpinCount = 2000;

void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

std::int32_t usable_processor_count() {
  cpu_set_t set;
  if (::sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

}  // namespace

Result<std::unique_ptr<ThreadPool>> ThreadPool::create(std::int32_t thread_count) {
  if (thread_count == 0) thread_count = usable_processor_count();
  if (thread_count < 1 || thread_count > kThreadCountMax) {
    return error(StatusCode::invalid_argument, "thread count {} outside 1..{}", thread_count,
                 kThreadCountMax);
  }
  std::unique_ptr<ThreadPool> pool(new ThreadPool());
  pool->workers_.reserve(static_cast<std::size_t>(thread_count) - 1);
  for (std::int32_t i = 1; i < thread_count; ++i) {
    PLE_TRY_ASSIGN(std::thread worker, start_thread([raw = pool.get()] { raw->worker_main(); }));
    pool->workers_.push_back(std::move(worker));
  }
  return pool;
}

ThreadPool::~ThreadPool() {
  stopping_.store(true, std::memory_order_relaxed);
  state_.fetch_add(kGenerationUnit, std::memory_order_release);
  state_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t count, Invoke invoke, const void* callable) {
  if (count <= 0) return;
  if (count == 1 || workers_.empty()) return invoke(callable, 0, count);
  const MutexLock lock(caller_mutex_);
  invoke_ = invoke;
  callable_ = callable;
  count_ = count;
  next_index_.store(0, std::memory_order_relaxed);
  // Closed and without joined workers here, so this opens the next generation.
  state_.fetch_add(kGenerationUnit | kOpen, std::memory_order_release);
  state_.notify_all();
  work();
  std::uint32_t state = state_.fetch_and(~kOpen, std::memory_order_acquire) & ~kOpen;
  for (int spin = 0; (state & kJoinedMask) != 0; ++spin) {
    if (spin < kSpinCount) {
      spin_pause();
    } else {
      state_.wait(state, std::memory_order_acquire);
    }
    state = state_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work() {
  const std::int64_t shares = 2 * std::int64_t{thread_count()};
  std::int64_t begin = next_index_.load(std::memory_order_relaxed);
  while (begin < count_) {
    const std::int64_t end = begin + std::max<std::int64_t>(1, (count_ - begin) / shares);
    if (!next_index_.compare_exchange_weak(begin, end, std::memory_order_relaxed)) continue;
    invoke_(callable_, begin, end);
    begin = next_index_.load(std::memory_order_relaxed);
  }
}

// Returns the state in which an open job of another generation, or the end, was seen.
std::uint32_t ThreadPool::wait_for_job(std::uint32_t last_generation) {
  for (int spin = 0;; ++spin) {
    const std::uint32_t state = state_.load(std::memory_order_acquire);
    if (stopping_.load(std::memory_order_relaxed)) return state;
    if ((state & kOpen) != 0 && (state & kGenerationMask) != last_generation) return state;
    if (spin < kSpinCount) {
      spin_pause();
    } else {
      state_.wait(state, std::memory_order_relaxed);
    }
  }
}

void ThreadPool::worker_main() {
  std::uint32_t last_generation = 0;
  for (;;) {
    std::uint32_t state = wait_for_job(last_generation);
    if (stopping_.load(std::memory_order_relaxed)) return;
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acquire)) continue;
    last_generation = state & kGenerationMask;
    work();
    // The last one out of a closed job wakes a caller that has gone to sleep.
    const std::uint32_t left = state_.fetch_sub(1, std::memory_order_release) - 1;
    if ((left & (kOpen | kJoinedMask)) == 0) state_.notify_all();
  }
}

}  // namespace ple
