#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

// Lock discipline, checked by clang (-Wthread-safety): a member that a mutex guards says so with
// PLE_GUARDED_BY(mutex_), a function that wants the lock held with PLE_REQUIRES(mutex_).
#if defined(__clang__)
#define PLE_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define PLE_THREAD_ATTRIBUTE(x)
#endif
#define PLE_CAPABILITY(name) PLE_THREAD_ATTRIBUTE(capability(name))
#define PLE_SCOPED_CAPABILITY PLE_THREAD_ATTRIBUTE(scoped_lockable)
#define PLE_GUARDED_BY(mutex) PLE_THREAD_ATTRIBUTE(guarded_by(mutex))
#define PLE_REQUIRES(mutex) PLE_THREAD_ATTRIBUTE(requires_capability(mutex))
#define PLE_EXCLUDES(mutex) PLE_THREAD_ATTRIBUTE(locks_excluded(mutex))
#define PLE_ACQUIRE(...) PLE_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define PLE_RELEASE(...) PLE_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define PLE_TRY_ACQUIRE(result) PLE_THREAD_ATTRIBUTE(try_acquire_capability(result))
#define PLE_NO_THREAD_SAFETY_ANALYSIS PLE_THREAD_ATTRIBUTE(no_thread_safety_analysis)

namespace ple {

// std::mutex with annotations.
class PLE_CAPABILITY("mutex") Mutex {
 public:
  void lock() PLE_ACQUIRE() { mutex_.lock(); }
  void unlock() PLE_RELEASE() { mutex_.unlock(); }
  bool try_lock() PLE_TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class ConditionVariable;
  std::mutex mutex_;
};

// Holds a Mutex for the length of a scope.
class PLE_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PLE_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() PLE_RELEASE() { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// std::condition_variable for a Mutex. As there, a wait may end early: wait in a loop.
class ConditionVariable {
 public:
  void wait(Mutex& mutex) PLE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }

  // False when the time has come without a notification.
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point time) PLE_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const std::cv_status status = condition_.wait_until(lock, time);
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace ple
