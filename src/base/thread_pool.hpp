#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"

namespace ple {

// A fork-join pool: thread_count - 1 workers and the calling thread. Workers spin for a few tens
// of microseconds after their last work, then sleep. A call allocates nothing and does not wait
// for workers that are still asleep when the work is done. Calls of several threads take turns.
class ThreadPool {
 public:
  // thread_count 0 is one thread per processor that this process may use.
  static Result<std::unique_ptr<ThreadPool>> create(std::int32_t thread_count);

  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::int32_t thread_count() const { return static_cast<std::int32_t>(workers_.size()) + 1; }

  // Cuts [0, count) into ranges that shrink towards the end, and calls fn(begin, end) for each of
  // them, in any order on any thread; returns when all are done. fn must not throw and must not use
  // the same pool.
  template <class Fn>
  void parallel_ranges(std::int64_t count, Fn&& fn) {
    using Callable = std::remove_reference_t<Fn>;
    const Invoke invoke = [](const void* callable, std::int64_t begin, std::int64_t end) {
      (*static_cast<Callable*>(const_cast<void*>(callable)))(begin, end);
    };
    run(count, invoke, &fn);
  }

  // The same for every single index: fn(index).
  template <class Fn>
  void parallel_for(std::int64_t count, Fn&& fn) {
    parallel_ranges(count, [&fn](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) fn(index);
    });
  }

 private:
  using Invoke = void (*)(const void* callable, std::int64_t begin, std::int64_t end);

  ThreadPool() = default;

  void run(std::int64_t count, Invoke invoke, const void* callable);
  void work();
  void worker_main();
  std::uint32_t wait_for_job(std::uint32_t last_generation);

  // The job, written by the caller before it opens it in state_ and read by threads that joined.
  Invoke invoke_ = nullptr;
  const void* callable_ = nullptr;
  std::int64_t count_ = 0;
  alignas(64) std::atomic<std::int64_t> next_index_{0};

  // Joined workers (low bits), whether the job is open to join, and the job's generation. A worker
  // joins by adding one while the job is open; the caller closes the job when no index is left and
  // waits for the joined ones only.
  alignas(64) std::atomic<std::uint32_t> state_{0};
  std::atomic<bool> stopping_{false};

  Mutex caller_mutex_;  // held for the length of a call
  std::vector<std::thread> workers_;
};

}  // namespace ple
