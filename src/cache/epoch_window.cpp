#include "cache/epoch_window.hpp"

#include "base/assert.hpp"

namespace ple {

std::optional<std::uint64_t> EpochWindow::open() {
  const MutexLock lock(mutex_);
  if (newest_ + 1 - floor_.load(std::memory_order_relaxed) >= kSpanMax) return std::nullopt;
  ++newest_;
  ++open_count_;
  retired_[newest_ % kSpanMax] = false;
  return newest_;
}

void EpochWindow::retire(std::uint64_t epoch) {
  const MutexLock lock(mutex_);
  PLE_ASSERT(!retired_[epoch % kSpanMax]);
  retired_[epoch % kSpanMax] = true;
  --open_count_;
  std::uint64_t floor = floor_.load(std::memory_order_relaxed);
  while (floor < newest_ && retired_[(floor + 1) % kSpanMax]) ++floor;
  floor_.store(floor, std::memory_order_release);
}

std::size_t EpochWindow::open_count() const {
  const MutexLock lock(mutex_);
  return open_count_;
}

}  // namespace ple
