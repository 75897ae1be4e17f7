// Hit ratios of the row cache on real text, next to other policies of the same capacity.
//   policy_bench [--tokens N] [--trace OUT.u32] [--scan HOT.u32 SCAN.u32] FILE.u32...
//   policy_bench --smoke
// --trace writes the accesses of one token a step, row ids as u32 (see compare_libcachesim).

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "cache/row_cache.hpp"
#include "policies.hpp"
#include "row_stream.hpp"

namespace ple::bench {
namespace {

// Rows that are there at once, with no bytes: only the hits matter.
class UnwrittenRows final : public RowSource {
 public:
  std::uint64_t row_count() const override { return kNoRow - 1; }
  RowEncoding encoding() const override { return {.dim = 8, .row_bytes = 16}; }
  std::shared_ptr<RowReadBatch> make_batch() override { return std::make_shared<Batch>(); }
  Status submit(std::span<const RowRead>, const std::shared_ptr<RowReadBatch>&) override {
    return {};
  }

 private:
  class Batch final : public RowReadBatch {
   public:
    bool done() const override { return true; }
    Status wait(std::chrono::nanoseconds) override { return {}; }
    bool arrived(std::size_t) const override { return true; }
  };
};

// Hits over accesses, of hot steps.
template <class Policy>
double ratio_of(const RowStream& stream, Policy policy) {
  std::uint64_t hit_count = 0;
  std::uint64_t hot_count = 0;
  for (const RowStream::Step& step : stream.steps) {
    for (const RowId row : stream.rows_of(step)) {
      const bool is_hit = policy.access(row);
      if (!step.is_hot) continue;
      ++hot_count;
      if (is_hit) ++hit_count;
    }
  }
  return static_cast<double>(hit_count) / static_cast<double>(hot_count);
}

Result<double> ratio_of_row_cache(const RowStream& stream, std::size_t capacity) {
  UnwrittenRows source;
  const auto slot_bytes = static_cast<std::uint64_t>(source.encoding().row_bytes);
  PLE_TRY_ASSIGN(auto cache, RowCache::open(source, {.cache_bytes = capacity * slot_bytes}));
  std::size_t ids_max = 0;
  for (const RowStream::Step& step : stream.steps)
    ids_max = std::max(ids_max, step.end - step.begin);
  PLE_TRY_ASSIGN(auto staged, cache->make_staged(ids_max));
  std::uint64_t hit_count = 0;
  std::uint64_t hot_count = 0;
  for (const RowStream::Step& step : stream.steps) {
    const std::uint64_t hit_before = cache->metrics().rows_hit;
    PLE_TRY(cache->stage(stream.rows_of(step), *staged));
    PLE_TRY(staged->wait());
    staged->release();
    if (!step.is_hot) continue;
    hot_count += step.end - step.begin;
    hit_count += cache->metrics().rows_hit - hit_before;
  }
  return static_cast<double>(hit_count) / static_cast<double>(hot_count);
}

// One line of the table for each capacity, given as 1 / divisor of the stream's distinct rows.
Status compare(const RowStream& stream, std::span<const double> divisors) {
  for (const double divisor : divisors) {
    const auto wanted =
        static_cast<std::size_t>(static_cast<double>(stream.distinct_count) / divisor);
    const std::size_t capacity = std::max<std::size_t>(wanted / 16, 1) * 16;
    PLE_TRY_ASSIGN(const double ours, ratio_of_row_cache(stream, capacity));
    const double lru = ratio_of(stream, ExactLru(capacity));
    const double s3_fifo = ratio_of(stream, S3Fifo(capacity));
    const double optimum = ratio_of(stream, OfflineOptimum(stream.rows, capacity));
    fmt::print("{:<36} {:>9} {:>7.1f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}{:>+12.2f}\n", stream.name,
               capacity, divisor, ours * 100, lru * 100, s3_fifo * 100, optimum * 100,
               (ours - lru) * 100);
    std::fflush(stdout);
  }
  return {};
}

Status write_trace(const RowStream& stream, const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(stream.rows.data()),
             static_cast<std::streamsize>(stream.rows.size() * sizeof(RowId)));
  if (!file.flush()) return error(StatusCode::io_error, "file '{}' cannot be written", path);
  return {};
}

// Text-like ids without a file: few rows are asked for often, most of them rarely.
std::vector<RowId> made_up_rows(std::size_t count, RowId first) {
  std::mt19937_64 engine(first);
  std::uniform_real_distribution<double> uniform(0, 1);
  std::vector<RowId> rows(count);
  for (RowId& row : rows) row = first + static_cast<RowId>(1 / (uniform(engine) + 1e-4));
  return rows;
}

Status run(std::span<char*> arguments) {
  constexpr double kTextDivisors[] = {100, 30, 10};
  constexpr double kScanDivisors[] = {2, 1, 0.5};
  std::size_t tokens_max = std::size_t{1} << 30;
  std::string trace_path;
  fmt::print("{:<36} {:>9} {:>7}{:>10}{:>10}{:>10}{:>10}{:>12}\n", "hit ratio, %", "slots", "1 in",
             "ours", "LRU", "S3-FIFO", "optimum", "over LRU");
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const std::string_view argument = arguments[index];
    if (argument == "--smoke") {
      const auto hot = made_up_rows(std::size_t{1} << 14, 0);
      const auto scan = made_up_rows(std::size_t{1} << 16, 1 << 20);
      PLE_TRY(compare(text_stream("made up", hot, 1), kTextDivisors));
      PLE_TRY(compare(scan_stream("made up beside a scan", hot, scan), kScanDivisors));
    } else if (argument == "--tokens" && index + 1 < arguments.size()) {
      tokens_max = std::strtoull(arguments[++index], nullptr, 10);
    } else if (argument == "--trace" && index + 1 < arguments.size()) {
      trace_path = arguments[++index];
    } else if (argument == "--scan" && index + 2 < arguments.size()) {
      PLE_TRY_ASSIGN(const auto hot, read_token_rows(arguments[index + 1], 16384));
      PLE_TRY_ASSIGN(const auto scan, read_token_rows(arguments[index + 2], tokens_max));
      index += 2;
      PLE_TRY(compare(scan_stream("16,384 tokens beside a scan", hot, scan), kScanDivisors));
    } else {
      const std::string path(argument);
      const std::string name = path.substr(path.find_last_of('/') + 1);
      PLE_TRY_ASSIGN(const auto ids, read_token_rows(path, tokens_max));
      const RowStream by_token = text_stream(name + ", 1 token a step", ids, 1);
      if (!trace_path.empty()) PLE_TRY(write_trace(by_token, trace_path));
      PLE_TRY(compare(by_token, kTextDivisors));
      PLE_TRY(compare(text_stream(name + ", 512 tokens a step", ids, 512), kTextDivisors));
    }
  }
  return {};
}

}  // namespace
}  // namespace ple::bench

int main(int argc, char** argv) {
  const ple::Status status = ple::bench::run({argv + 1, static_cast<std::size_t>(argc - 1)});
  if (status.is_ok()) return 0;
  fmt::print(stderr, "{}\n", status.message());
  return 2;
}
