#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace ple {

// A map from 32-bit ids to 32-bit values for the length of one step: open addressing, sized once,
// cleared in proportion to the step.
class IdMap {
 public:
  static constexpr std::uint32_t kNoKey = 0xFFFFFFFF;  // no row, no slot: cannot be inserted

  // Room for count_max keys.
  explicit IdMap(std::size_t count_max)
      : entries_(std::bit_ceil(std::max<std::size_t>(count_max, 4) * 2)) {}

  // Forgets everything; up to count keys follow.
  void clear(std::size_t count) {
    size_ = 0;
    mask_ = std::bit_ceil(std::max<std::size_t>(count, 4) * 2) - 1;
    shift_ = 64 - std::countr_one(mask_);
    std::fill_n(entries_.begin(), mask_ + 1, Entry{});
  }

  std::size_t size() const { return size_; }

  // The value of key, or nullptr. kNoKey is never there.
  std::uint32_t* find(std::uint32_t key) {
    if (size_ == 0 || key == kNoKey) return nullptr;
    Entry& entry = entries_[position(key)];
    return entry.key == key ? &entry.value : nullptr;
  }

  // False, and nothing changes, if the key is there.
  bool insert(std::uint32_t key, std::uint32_t value) {
    Entry& entry = entries_[position(key)];
    if (entry.key == key) return false;
    entry = {key, value};
    ++size_;
    return true;
  }

 private:
  struct Entry {
    std::uint32_t key = kNoKey;
    std::uint32_t value = 0;
  };

  std::size_t position(std::uint32_t key) const {
    std::size_t at = key * 0x9E3779B97F4A7C15U >> shift_;
    while (entries_[at].key != key && entries_[at].key != kNoKey) at = (at + 1) & mask_;
    return at;
  }

  std::vector<Entry> entries_;
  std::size_t size_ = 0;
  std::size_t mask_ = 0;
  int shift_ = 0;
};

}  // namespace ple
