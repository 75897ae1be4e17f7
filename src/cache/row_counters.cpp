#include "cache/row_counters.hpp"

namespace ple {

namespace {

void add_relaxed(std::atomic<std::uint64_t>& counter, std::uint64_t count) {
  if (count != 0) counter.fetch_add(count, std::memory_order_relaxed);
}

}  // namespace

void RowCounters::add(const RowCacheMetrics& counted) {
  add_relaxed(asked_, counted.rows_asked);
  add_relaxed(distinct_, counted.rows_distinct);
  add_relaxed(hit_, counted.rows_hit);
  add_relaxed(missed_, counted.rows_missed);
  add_relaxed(staged_, counted.rows_staged);
  add_relaxed(reread_, counted.rows_reread);
  add_relaxed(prefetched_, counted.rows_prefetched);
  add_relaxed(evicted_, counted.rows_evicted);
}

RowCacheMetrics RowCounters::read() const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  return {.rows_asked = asked_.load(kRelaxed),
          .rows_distinct = distinct_.load(kRelaxed),
          .rows_hit = hit_.load(kRelaxed),
          .rows_missed = missed_.load(kRelaxed),
          .rows_staged = staged_.load(kRelaxed),
          .rows_reread = reread_.load(kRelaxed),
          .rows_prefetched = prefetched_.load(kRelaxed),
          .rows_evicted = evicted_.load(kRelaxed)};
}

}  // namespace ple
