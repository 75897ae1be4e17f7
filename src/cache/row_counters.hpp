#pragma once

#include <atomic>
#include <cstdint>

#include "cache/row_cache.hpp"

namespace ple {

// RowCacheMetrics as they are counted.
class RowCounters {
 public:
  void add(const RowCacheMetrics& counted);
  RowCacheMetrics read() const;

 private:
  std::atomic<std::uint64_t> asked_ = 0;
  std::atomic<std::uint64_t> distinct_ = 0;
  std::atomic<std::uint64_t> hit_ = 0;
  std::atomic<std::uint64_t> missed_ = 0;
  std::atomic<std::uint64_t> staged_ = 0;
  std::atomic<std::uint64_t> reread_ = 0;
  std::atomic<std::uint64_t> prefetched_ = 0;
  std::atomic<std::uint64_t> evicted_ = 0;
};

}  // namespace ple
