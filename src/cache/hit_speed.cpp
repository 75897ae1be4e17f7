#include "cache/hit_speed.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/start_thread.hpp"
#include "cache/row_cache.hpp"
#include "cache/row_requests.hpp"
#include "cache/slot_set.hpp"

namespace ple {

namespace {

constexpr std::size_t kStepIds = 131072;
// Steps until ids repeat: together they touch far more metadata than the processor caches.
constexpr std::size_t kPoolSteps = 32;

// Rows that are there as soon as they are asked for, with no bytes.
class UnwrittenRows final : public RowSource {
 public:
  UnwrittenRows(std::uint64_t row_count, std::int32_t row_bytes)
      : row_count_(row_count),
        encoding_{.format = RowFormat::bf16, .dim = row_bytes / 2, .row_bytes = row_bytes} {}

  std::uint64_t row_count() const override { return row_count_; }
  RowEncoding encoding() const override { return encoding_; }
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

  std::uint64_t row_count_;
  RowEncoding encoding_;
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// One thread's steps over the cache.
class Stepper {
 public:
  Stepper(RowCache& cache, const HitSpeedOptions& options, std::uint64_t row_count,
          std::uint64_t seed)
      : cache_(cache), options_(options), step_index_(seed << 32) {
    if (options.make_ids) {
      ids_.resize(kStepIds);
      return;
    }
    std::mt19937_64 engine(seed);
    std::uniform_int_distribution<RowId> uniform(0, static_cast<RowId>(row_count - 1));
    ids_.resize(kStepIds * kPoolSteps);
    for (RowId& row : ids_) row = uniform(engine);
  }

  Status prepare() {
    PLE_TRY_ASSIGN(staged_, cache_.make_staged(kStepIds));
    return {};
  }

  struct Seconds {
    double stage = 0;
    double step = 0;  // stage, wait and release
  };
  Result<Seconds> step(std::size_t id_count) {
    const auto start = std::chrono::steady_clock::now();
    PLE_TRY(cache_.stage(next_ids(id_count), *staged_));
    const double stage_seconds = seconds_since(start);
    PLE_TRY(staged_->wait());
    staged_->release();
    return Seconds{stage_seconds, seconds_since(start)};
  }

  // Medians of some steps. A step is short, so that a median of them does not see what else the
  // machine does.
  Result<Seconds> steps(std::size_t id_count, std::size_t step_count) {
    std::vector<double> stage_seconds;
    std::vector<double> step_seconds;
    for (std::size_t index = 0; index < step_count; ++index) {
      PLE_TRY_ASSIGN(const Seconds seconds, step(id_count));
      stage_seconds.push_back(seconds.stage);
      step_seconds.push_back(seconds.step);
    }
    return Seconds{median(std::move(stage_seconds)), median(std::move(step_seconds))};
  }

  // The whole table, once.
  Status fill(std::uint64_t row_count) {
    std::vector<RowId> rows(kStepIds);
    for (std::uint64_t begin = 0; begin < row_count; begin += kStepIds) {
      rows.resize(std::min<std::uint64_t>(kStepIds, row_count - begin));
      std::iota(rows.begin(), rows.end(), static_cast<RowId>(begin));
      PLE_TRY(cache_.stage(rows, *staged_));
      PLE_TRY(staged_->wait());
      staged_->release();
    }
    return {};
  }

 private:
  std::span<const RowId> next_ids(std::size_t id_count) {
    ++step_index_;
    if (options_.make_ids) {
      options_.make_ids(step_index_, {ids_.data(), id_count});
      return {ids_.data(), id_count};
    }
    const std::size_t begin = next_begin_;
    next_begin_ = (begin + std::max<std::size_t>(id_count, 64)) % (ids_.size() - kStepIds + 1);
    return {ids_.data() + begin, id_count};
  }

  RowCache& cache_;
  const HitSpeedOptions& options_;
  std::uint64_t step_index_;
  std::vector<RowId> ids_;
  std::size_t next_begin_ = 0;
  std::unique_ptr<StagedRows> staged_;
};

// The time of a step of each of two threads. Each goes on until both have made their steps, so that
// all are made side by side.
Result<std::array<double, 2>> steps_side_by_side(std::array<Stepper*, 2> steppers,
                                                 std::size_t step_count) {
  std::atomic<std::size_t> finished_count = 0;
  std::array<Result<Stepper::Seconds>, 2> medians = {Status(), Status()};
  const auto run = [&](std::size_t index) {
    medians[index] = or_out_of_memory([&] { return steppers[index]->steps(kStepIds, step_count); });
    ++finished_count;
    while (finished_count < 2 && medians[index].is_ok() &&
           steppers[index]->step(kStepIds).is_ok()) {
    }
  };
  PLE_TRY_ASSIGN(std::thread second, start_thread([&] { run(1); }));
  run(0);
  second.join();
  for (const Result<Stepper::Seconds>& each : medians) PLE_TRY(each.status());
  return std::array{medians[0].value().step, medians[1].value().step};
}

// Ids per second of two threads over one: the median of rounds in which both follow each other, so
// that it does not see how the machine drifts.
Result<double> two_thread_scale(std::array<Stepper*, 2> steppers, std::size_t step_count) {
  constexpr std::size_t kRounds = 9;
  std::vector<double> scales;
  for (std::size_t round = 0; round < kRounds; ++round) {
    PLE_TRY_ASSIGN(const auto alone, steppers[0]->steps(kStepIds, step_count));
    PLE_TRY_ASSIGN(const auto together, steps_side_by_side(steppers, step_count));
    scales.push_back(alone.step / together[0] + alone.step / together[1]);
  }
  return median(std::move(scales));
}

}  // namespace

Result<HitSpeed> measure_hit_speed(const HitSpeedOptions& options) {
  UnwrittenRows shape(1, options.row_bytes);
  const std::uint64_t set_bytes = std::uint64_t{kWayCount} * slot_bytes_of(shape.encoding());
  const std::uint64_t slot_count = options.arena_bytes / set_bytes * kWayCount;
  const std::uint64_t row_count = options.make_ids ? options.row_count : slot_count;
  if (row_count == 0 || row_count > slot_count) {
    return error(StatusCode::invalid_argument, "{} rows for an arena of {} slots", row_count,
                 slot_count);
  }
  UnwrittenRows source(row_count, options.row_bytes);
  PLE_TRY_ASSIGN(auto cache, RowCache::open(source, {.cache_bytes = options.arena_bytes}));
  Stepper first(*cache, options, row_count, 1);
  Stepper second(*cache, options, row_count, 2);
  PLE_TRY(first.prepare());
  PLE_TRY(second.prepare());
  PLE_TRY(first.fill(row_count));

  const std::size_t step_count = std::size_t{options.repeats} * 8;
  PLE_TRY_ASSIGN(const auto large, first.steps(kStepIds, step_count));
  PLE_TRY_ASSIGN(const auto middle, first.steps(1024, step_count * 16));
  PLE_TRY_ASSIGN(const auto small, first.steps(16, step_count * 128));
  PLE_TRY_ASSIGN(const double scale, two_thread_scale({&first, &second}, step_count));
  return HitSpeed{.arena_bytes = options.arena_bytes,
                  .hit_ids_per_s = kStepIds / large.step,
                  .stage_16_us = small.stage * 1e6,
                  .stage_1024_us = middle.stage * 1e6,
                  .stage_131072_us = large.stage * 1e6,
                  .two_thread_scale = scale,
                  .bytes_per_slot = static_cast<double>(sizeof(SlotSet)) / kWayCount};
}

}  // namespace ple
