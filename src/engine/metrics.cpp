#include "engine/metrics.hpp"

#include <fmt/format.h>

#include <iterator>

namespace ple {

namespace {

void put_counter(std::string& page, const char* name, const char* help, std::uint64_t value) {
  fmt::format_to(std::back_inserter(page),
                 "# HELP pleiades_{0} {1}\n# TYPE pleiades_{0} counter\npleiades_{0} {2}\n", name,
                 help, value);
}

void put_summary(std::string& page, const char* name, const char* help, const Quantiles& q) {
  fmt::format_to(std::back_inserter(page),
                 "# HELP pleiades_{0}_seconds {1}\n# TYPE pleiades_{0}_seconds summary\n"
                 "pleiades_{0}_seconds{{quantile=\"0.5\"}} {2}\n"
                 "pleiades_{0}_seconds{{quantile=\"0.99\"}} {3}\n"
                 "pleiades_{0}_seconds{{quantile=\"1\"}} {4}\n"
                 "pleiades_{0}_seconds_count {5}\n",
                 name, help, q.p50_us * 1e-6, q.p99_us * 1e-6, q.max_us * 1e-6, q.count);
}

}  // namespace

void add(RowCacheMetrics& sum, const RowCacheMetrics& more) {
  sum.rows_asked += more.rows_asked;
  sum.rows_distinct += more.rows_distinct;
  sum.rows_hit += more.rows_hit;
  sum.rows_missed += more.rows_missed;
  sum.rows_staged += more.rows_staged;
  sum.rows_reread += more.rows_reread;
  sum.rows_prefetched += more.rows_prefetched;
  sum.rows_evicted += more.rows_evicted;
}

Quantiles quantiles_of(const LatencyHistogram& histogram) {
  const auto us = [&](double fraction) {
    return static_cast<double>(histogram.percentile_ns(fraction)) * 1e-3;
  };
  return {.p50_us = us(0.5), .p99_us = us(0.99), .max_us = us(1.0), .count = histogram.count()};
}

std::string prometheus_text(const EngineMetrics& metrics) {
  std::string page;
  const RowCacheMetrics& rows = metrics.rows;
  put_counter(page, "tokens_total", "Tokens committed.", metrics.tokens);
  put_counter(page, "steps_total", "Steps committed.", metrics.steps);
  put_counter(page, "rows_asked_total", "Rows asked for, duplicates included.", rows.rows_asked);
  put_counter(page, "rows_distinct_total", "Distinct rows of each step.", rows.rows_distinct);
  put_counter(page, "rows_hit_total", "Distinct rows found in the cache.", rows.rows_hit);
  put_counter(page, "rows_missed_total", "Distinct rows read for a step.", rows.rows_missed);
  put_counter(page, "rows_prefetched_total", "Rows read ahead.", rows.rows_prefetched);
  put_counter(page, "disk_reads_total", "Reads from the table's files.", metrics.disk_reads);
  put_counter(page, "disk_bytes_total", "Bytes read from the table's files.", metrics.disk_bytes);
  put_summary(page, "read", "One read from a table's file.", metrics.read);
  put_summary(page, "stage", "Staging one step.", metrics.stage);
  put_summary(page, "wait", "Waiting for the rows of one step.", metrics.wait);
  put_summary(page, "run", "Running one step through one layer, host time.", metrics.run);
  return page;
}

}  // namespace ple
