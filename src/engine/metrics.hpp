#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/latency_histogram.hpp"
#include "cache/row_cache.hpp"

namespace ple {

// What an engine counts of its steps while it runs; lock-free.
struct StepCounters {
  std::atomic<std::uint64_t> tokens{0};
  std::atomic<std::uint64_t> steps{0};
  LatencyHistogram stage;
  LatencyHistogram wait;
  LatencyHistogram run;
};

// Records the time from its making to its end.
class ScopedTimer {
 public:
  explicit ScopedTimer(LatencyHistogram& histogram)
      : histogram_(histogram), begin_(std::chrono::steady_clock::now()) {}
  ~ScopedTimer() {
    const auto elapsed = std::chrono::steady_clock::now() - begin_;
    histogram_.record(static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count()));
  }
  ScopedTimer(const ScopedTimer&) = delete;
  ScopedTimer& operator=(const ScopedTimer&) = delete;

 private:
  LatencyHistogram& histogram_;
  std::chrono::steady_clock::time_point begin_;
};

// A copy of every number, for users.
struct Quantiles {
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  std::uint64_t count = 0;
};

struct EngineMetrics {
  std::uint64_t tokens = 0;
  std::uint64_t steps = 0;
  RowCacheMetrics rows;
  std::uint64_t disk_reads = 0;
  std::uint64_t disk_bytes = 0;
  Quantiles read;
  Quantiles stage;
  Quantiles wait;
  Quantiles run;
};

void add(RowCacheMetrics& sum, const RowCacheMetrics& more);

Quantiles quantiles_of(const LatencyHistogram& histogram);

// The text page that Prometheus scrapes.
std::string prometheus_text(const EngineMetrics& metrics);

}  // namespace ple
