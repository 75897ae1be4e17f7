#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/mutex.hpp"

namespace ple {

// Numbers the steps of a cache and knows the floor: the newest epoch up to which every step has
// been released. Thread-safe.
class EpochWindow {
 public:
  // How far the newest epoch may be ahead of the oldest open one.
  static constexpr std::uint64_t kSpanMax = std::uint64_t{1} << 16;

  EpochWindow() : retired_(kSpanMax, true) {}

  // The next epoch; none while the oldest open one is kSpanMax behind.
  std::optional<std::uint64_t> open();
  void retire(std::uint64_t epoch);

  std::uint64_t floor() const { return floor_.load(std::memory_order_acquire); }
  std::size_t open_count() const;

 private:
  mutable Mutex mutex_;
  std::uint64_t newest_ PLE_GUARDED_BY(mutex_) = 0;
  std::size_t open_count_ PLE_GUARDED_BY(mutex_) = 0;
  std::vector<bool> retired_ PLE_GUARDED_BY(mutex_);  // [epoch % kSpanMax], of floor < e <= newest
  std::atomic<std::uint64_t> floor_ = 0;              // written under mutex_
};

}  // namespace ple
