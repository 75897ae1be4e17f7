#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <list>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace ple::bench {

// Replacement policies to compare the row cache with: each says for every access, in order, whether
// it hits. Plain code, for counting only.

// Least recently used, exactly.
class ExactLru {
 public:
  explicit ExactLru(std::size_t capacity) : capacity_(capacity) {}

  bool access(RowId row) {
    const auto found = places_.find(row);
    if (found != places_.end()) {
      order_.splice(order_.begin(), order_, found->second);
      return true;
    }
    if (places_.size() == capacity_) {
      places_.erase(order_.back());
      order_.pop_back();
    }
    order_.push_front(row);
    places_[row] = order_.begin();
    return false;
  }

 private:
  std::size_t capacity_;
  std::list<RowId> order_;
  std::unordered_map<RowId, std::list<RowId>::iterator> places_;
};

// S3-FIFO over the whole cache: a small queue for newcomers, a main queue for what was used again,
// a ghost queue of what left the small one.
class S3Fifo {
 public:
  explicit S3Fifo(std::size_t capacity)
      : small_capacity_(capacity / 10 + 1), main_capacity_(capacity - small_capacity_) {}

  bool access(RowId row) {
    const auto found = uses_.find(row);
    if (found != uses_.end()) {
      found->second = std::min(found->second + 1, 3);
      return true;
    }
    if (ghosts_.erase(row) > 0) {
      if (main_.size() >= main_capacity_) evict_main();
      main_.push_back(row);
    } else {
      if (small_.size() >= small_capacity_) evict_small();
      small_.push_back(row);
    }
    uses_[row] = 0;
    return false;
  }

 private:
  void evict_small() {
    const RowId row = small_.front();
    small_.pop_front();
    if (uses_[row] > 0) {
      uses_[row] = 0;
      if (main_.size() >= main_capacity_) evict_main();
      main_.push_back(row);
      return;
    }
    uses_.erase(row);
    ghosts_[row] = ++ghost_time_;
    ghost_order_.push_back({row, ghost_time_});
    while (ghosts_.size() > main_capacity_) {
      const auto [oldest, time] = ghost_order_.front();
      ghost_order_.pop_front();
      const auto found = ghosts_.find(oldest);
      if (found != ghosts_.end() && found->second == time) ghosts_.erase(found);
    }
  }

  void evict_main() {
    for (;;) {
      const RowId row = main_.front();
      main_.pop_front();
      if (uses_[row] == 0) {
        uses_.erase(row);
        return;
      }
      --uses_[row];
      main_.push_back(row);
    }
  }

  std::size_t small_capacity_;
  std::size_t main_capacity_;
  std::deque<RowId> small_;
  std::deque<RowId> main_;
  std::unordered_map<RowId, int> uses_;
  std::unordered_map<RowId, std::uint64_t> ghosts_;
  std::deque<std::pair<RowId, std::uint64_t>> ghost_order_;
  std::uint64_t ghost_time_ = 0;
};

// Belady's offline optimum: what is used again last, or never, has to go; a row that would itself
// be the one is not kept.
class OfflineOptimum {
 public:
  OfflineOptimum(std::span<const RowId> accesses, std::size_t capacity)
      : next_use_(accesses.size()), capacity_(capacity) {
    std::unordered_map<RowId, std::uint32_t> later;
    for (std::size_t index = accesses.size(); index-- > 0;) {
      const auto [found, is_last] = later.try_emplace(accesses[index], kNever);
      next_use_[index] = found->second;
      found->second = static_cast<std::uint32_t>(index);
    }
  }

  bool access(RowId row) {
    const std::uint32_t next = next_use_[index_++];
    const auto found = kept_.find(row);
    if (found != kept_.end()) {
      found->second = next;
      order_.push({next, row});
      return true;
    }
    if (next == kNever || (kept_.size() == capacity_ && !make_room(next))) return false;
    kept_[row] = next;
    order_.push({next, row});
    return false;
  }

 private:
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();

  bool make_room(std::uint32_t next) {
    for (;;) {
      const auto [use, row] = order_.top();
      const auto found = kept_.find(row);
      if (found != kept_.end() && found->second == use) {
        if (use <= next) return false;
        kept_.erase(found);
        order_.pop();
        return true;
      }
      order_.pop();  // a use that is over
    }
  }

  std::vector<std::uint32_t> next_use_;  // [accesses]
  std::size_t capacity_;
  std::size_t index_ = 0;
  std::unordered_map<RowId, std::uint32_t> kept_;
  std::priority_queue<std::pair<std::uint32_t, RowId>> order_;
};

}  // namespace ple::bench
