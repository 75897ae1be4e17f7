#include "run_report.hpp"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "json_text.hpp"
#include "names.hpp"

namespace pleiades::cli {
namespace {

// A part of the steps taken together.
struct Totals {
  std::int64_t tokens = 0;
  double seconds = 0;
  double wait_seconds = 0;

  void add(const LayerStream::Record& step, std::int64_t sequence_count) {
    tokens += step.token_count * sequence_count;
    seconds += step.total_us() * 1e-6;
    wait_seconds += step.wait_us * 1e-6;
  }
  double tokens_per_s() const { return seconds > 0 ? static_cast<double>(tokens) / seconds : 0; }
  double wait_share() const { return seconds > 0 ? wait_seconds / seconds : 0; }
};

struct Summary {
  Totals all, prefill, decode;
};

Summary summarise(const RunReport& report) {
  Summary summary;
  for (const RunReport::Step& step : report.steps) {
    summary.all.add(step.times, report.sequence_count);
    (step.times.is_decode ? summary.decode : summary.prefill)
        .add(step.times, report.sequence_count);
  }
  return summary;
}

nlohmann::ordered_json quantiles_json(const ple_quantiles& quantiles) {
  return {{"p50", quantiles.p50_us}, {"p99", quantiles.p99_us}};
}

// Pairs of the longest time of a bucket and how many reads fell into it.
nlohmann::ordered_json buckets_json(const std::vector<ple_time_bucket>& buckets) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [us_max, count] : buckets) list.push_back({us_max, count});
  return list;
}

nlohmann::ordered_json totals_json(const Totals& totals) {
  return {{"tokens", totals.tokens},
          {"seconds", totals.seconds},
          {"tokens_per_s", totals.tokens_per_s()}};
}

nlohmann::ordered_json steps_json(const std::vector<RunReport::Step>& steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const auto& [times, metrics, rss_bytes] : steps) {
    list.push_back({{"position", times.position},
                    {"tokens", times.token_count},
                    {"phase", times.is_decode ? "decode" : "prefill"},
                    {"stage_us", times.stage_us},
                    {"wait_us", times.wait_us},
                    {"run_us", times.run_us},
                    {"commit_us", times.commit_us},
                    {"rows_distinct", metrics.rows_distinct},
                    {"rows_hit", metrics.rows_hit},
                    {"read_p50_us", metrics.read.p50_us},
                    {"read_p99_us", metrics.read.p99_us},
                    {"rss_bytes", rss_bytes}});
  }
  return list;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// A line of the process's status, given there in kilobytes.
std::uint64_t status_bytes(std::string_view line) {
  std::ifstream status("/proc/self/status");
  std::string key;
  std::uint64_t kilobytes = 0;
  while (status >> key) {
    if (key == line && status >> kilobytes) return kilobytes * 1024;
    status.ignore(4096, '\n');
  }
  return 0;
}

std::string milliseconds(double us) { return fmt::format("{:.3g} ms", us * 1e-3); }

}  // namespace

void RunReport::print_json(bool with_steps) const {
  const Summary summary = summarise(*this);
  nlohmann::ordered_json json = {
      {"tokens", summary.all.tokens},
      {"tokens_per_s", summary.all.tokens_per_s()},
      {"rows_asked", metrics.rows_asked},
      {"rows_distinct", metrics.rows_distinct},
      {"rows_hit", metrics.rows_hit},
      {"rows_missed", metrics.rows_missed},
      {"rows_prefetched", metrics.rows_prefetched},
      {"disk_reads", metrics.disk_reads},
      {"disk_bytes", metrics.disk_bytes},
      {"read_us", quantiles_json(metrics.read)},
      {"stage_us", quantiles_json(metrics.stage)},
      {"wait_us", quantiles_json(metrics.wait)},
      {"run_us", quantiles_json(metrics.run)},
      {"wait_share", summary.all.wait_share()},
      {"peak_rss_bytes", peak_rss_bytes},
      {"output_digest", output_digest},
      {"layer", layer.layer_index},
      {"sequences", sequence_count},
      {"seconds", summary.all.seconds},
      {"prefill", totals_json(summary.prefill)},
      {"decode", totals_json(summary.decode)},
      {"device", engine.device_name == nullptr ? "cpu" : engine.device_name},
      {"threads", engine.thread_count},
      {"arithmetic", name_of(kArithmeticNames, engine.arithmetic)},
      {"arena", name_of(kArenaNames, engine.arena)},
      {"arena_bytes", engine.arena_bytes},
      {"io", name_of(kIoNames, engine.io)},
      {"direct_io", engine.direct_io != 0},
      {"block_bytes", engine.block_bytes}};
  json["read_times_us"] = buckets_json(read_times);
  if (with_steps) json["steps"] = steps_json(steps);
  fmt::print("{}\n", json_text(json));
}

void RunReport::print_text() const {
  const Summary summary = summarise(*this);
  fmt::print("{}, layer {}: {} on {}, {} threads, {} of rows in memory ({})\n", path,
             layer.layer_index, name_of(kArithmeticNames, engine.arithmetic),
             engine.device_name == nullptr ? "cpu" : engine.device_name, engine.thread_count,
             bytes_text(engine.arena_bytes), name_of(kArenaNames, engine.arena));
  fmt::print("  speed    {} tokens in {:.2f} s: {:.0f} tokens/s\n",
             count_text(static_cast<std::uint64_t>(summary.all.tokens)), summary.all.seconds,
             summary.all.tokens_per_s());
  if (summary.decode.tokens > 0) {
    fmt::print("           prefill {:.0f} tokens/s, decode {:.0f} tokens/s\n",
               summary.prefill.tokens_per_s(), summary.decode.tokens_per_s());
  }
  fmt::print("  rows     {} asked, {} distinct within their steps; {:.1f} % of these in memory\n",
             count_text(metrics.rows_asked), count_text(metrics.rows_distinct),
             100 * share(metrics.rows_hit, metrics.rows_distinct));
  if (metrics.disk_reads > 0) {
    fmt::print("  disk     {} reads, {}, by {}{}; one read {:.0f} us, p99 {:.0f} us\n",
               count_text(metrics.disk_reads), bytes_text(metrics.disk_bytes),
               name_of(kIoNames, engine.io), engine.direct_io != 0 ? " past the page cache" : "",
               metrics.read.p50_us, metrics.read.p99_us);
  }
  fmt::print(
      "  a step   staged in {}, waited {}, ran {} (p99 {}); {:.1f} % of the time was waiting\n",
      milliseconds(metrics.stage.p50_us), milliseconds(metrics.wait.p50_us),
      milliseconds(metrics.run.p50_us), milliseconds(metrics.run.p99_us),
      100 * summary.all.wait_share());
  fmt::print("  memory   {} at most\n", bytes_text(peak_rss_bytes));
  fmt::print("  output   digest {}\n", output_digest);
}

std::uint64_t rss_bytes() { return status_bytes("VmRSS:"); }
std::uint64_t peak_rss_bytes() { return status_bytes("VmHWM:"); }

}  // namespace pleiades::cli
