// Random steps with random faults against a trivially right model: while a step holds its rows, its
// slots hold the bytes of those rows, whatever the others do; counters are what sets of ids say.
// PLE_SOAK_SECONDS makes it run that long.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <ostream>
#include <unordered_set>

#include "cache/cache_support.hpp"
#include "cache/fake_device.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using Delivery = FakeRowSource::Delivery;
using Fault = FakeRowSource::Fault;

struct ModelCase {
  const char* name;
  std::uint64_t row_count;
  std::uint64_t slot_count;
  std::size_t ids_max;
  bool on_device;

  friend std::ostream& operator<<(std::ostream& out, const ModelCase& c) { return out << c.name; }
};

constexpr std::array<ModelCase, 7> kCases = {{
    {"OneSet", 100, 16, 24, false},
    {"NoSlot", 100, 0, 24, false},
    {"FewSets", 1000, 64, 40, false},
    {"ManySets", 20'000, 4096, 400, false},
    {"OneSetOnDevice", 100, 16, 24, true},
    {"NoSlotOnDevice", 100, 0, 24, true},
    {"FewSetsOnDevice", 1000, 64, 40, true},
}};

std::chrono::seconds soak_time() {
  const char* text = std::getenv("PLE_SOAK_SECONDS");
  return std::chrono::seconds(text == nullptr ? 0 : std::atoi(text));
}

class CacheModel {
 public:
  explicit CacheModel(const ModelCase& model_case)
      : case_(model_case),
        source_(model_case.row_count, kRowBytes),
        cache_(open_cache(source_, model_case.slot_count,
                          model_case.on_device ? device_options() : RowCacheOptions{})) {
    source_.set_delivery(Delivery::at_wait);
    source_.set_fault([this](RowId row) {
      if (hanging_.contains(row)) return Fault::hang;
      return failing_.contains(row) ? Fault::fail : Fault::none;
    });
    for (Step& step : steps_) step.rows = make_staged(*cache_, model_case.ids_max);
  }

  void run(std::size_t operation_count) {
    for (std::size_t index = 0; index < operation_count && !testing::Test::HasFailure(); ++index) {
      operate();
    }
    finish();
  }

 private:
  enum class State { free, reading, held, failed };
  struct Step {
    std::unique_ptr<StagedRows> rows;
    std::vector<RowId> ids;
    State state = State::free;
    bool saw_fault = false;  // whether any row was failing while it was staged
  };

  Step& any_step() { return steps_[static_cast<std::size_t>(random_.between(0, 3))]; }

  // A few rows are asked for all the time, most of them rarely.
  RowId any_row() {
    if (random_.chance(0.02)) return kNoRow;
    const auto last = static_cast<std::int64_t>(case_.row_count - 1);
    return static_cast<RowId>(random_.between(0, random_.chance(0.5) ? last / 10 : last));
  }

  std::vector<RowId> any_rows(std::size_t count_max) {
    std::vector<RowId> rows(
        static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(count_max))));
    std::generate(rows.begin(), rows.end(), [&] { return any_row(); });
    return rows;
  }

  void operate() {
    Step& step = any_step();
    switch (random_.between(0, 9)) {
      case 0:
        change_faults();
        break;
      case 1:
        prefetch();
        break;
      case 2:
        for (int i = 0; i < 10; ++i) source_.deliver(random_.bits() % 1000);
        break;
      default:
        if (step.state == State::free) {
          stage(step);
        } else if (step.state == State::reading && random_.chance(0.8)) {
          wait(step);
        } else {
          release(step);
        }
    }
    for (const Step& other : steps_) check_held(other);
  }

  void change_faults() {
    failing_.clear();
    hanging_.clear();
    if (random_.chance(0.5)) return;
    for (int i = 0; i < 3; ++i) failing_.insert(any_row());
    if (random_.chance(0.2)) hanging_.insert(any_row());
    for (Step& step : steps_) step.saw_fault = true;
  }

  bool has_faults() const { return !failing_.empty() || !hanging_.empty(); }

  void prefetch() {
    const std::vector<RowId> rows = any_rows(case_.ids_max);
    const std::uint64_t before = source_.rows_submitted();
    ASSERT_TRUE(cache_->prefetch(rows).is_ok());
    prefetched_ += source_.rows_submitted() - before;
  }

  void stage(Step& step) {
    step.ids = any_rows(case_.ids_max);
    step.saw_fault = has_faults();
    if (random_.chance(0.02)) source_.fail_next_submit();
    const RowCacheMetrics before = cache_->metrics();
    const Status status = cache_->stage(step.ids, *step.rows);
    if (!status.is_ok()) {
      EXPECT_THAT(status.message(), testing::HasSubstr("refused"));
      return;
    }
    source_.accept_submits();
    step.state = State::reading;
    const RowCacheMetrics after = cache_->metrics();
    std::unordered_set<RowId> distinct(step.ids.begin(), step.ids.end());
    distinct.erase(kNoRow);
    EXPECT_EQ(after.rows_asked - before.rows_asked,
              step.ids.size() -
                  static_cast<std::size_t>(std::count(step.ids.begin(), step.ids.end(), kNoRow)));
    EXPECT_EQ(after.rows_distinct - before.rows_distinct, distinct.size());
    EXPECT_EQ(after.rows_hit + after.rows_missed, after.rows_distinct);
  }

  void wait(Step& step) {
    static_cast<void>(step.rows->ready());
    const Status status = step.rows->wait();
    if (!status.is_ok()) {
      EXPECT_TRUE(step.saw_fault) << status.message();
      step.state = State::failed;
      return;
    }
    if (case_.on_device) {
      EXPECT_TRUE(step.rows->place(stream_).is_ok());
      stream_.wait_for_latest_event();
    }
    step.state = State::held;
    EXPECT_TRUE(rows_are_right(source_, *step.rows, step.ids));
  }

  void check_held(const Step& step) {
    if (step.state != State::held) return;
    EXPECT_TRUE(rows_are_right(source_, *step.rows, step.ids));
  }

  void release(Step& step) {
    step.rows->release();
    step.state = State::free;
  }

  void finish() {
    for (Step& step : steps_) release(step);
    EXPECT_EQ(cache_->leases_outstanding(), 0U);
    failing_.clear();
    hanging_.clear();
    source_.deliver_all();
    const RowCacheMetrics metrics = cache_->metrics();
    EXPECT_EQ(metrics.rows_prefetched, prefetched_);
    EXPECT_EQ(metrics.rows_missed + metrics.rows_prefetched + metrics.rows_reread,
              source_.rows_submitted());
    // No slot is lost: as many rows as there are slots fit again.
    Step& step = steps_[0];
    step.ids.clear();  // an empty step places what was prefetched last
    ASSERT_TRUE(cache_->stage({}, *step.rows).is_ok());
    wait(step);
    release(step);
    for (RowId begin = 0; begin < std::min<std::uint64_t>(case_.slot_count, case_.row_count);
         begin += 16) {
      step.ids = row_range(begin, begin + 16);
      ASSERT_TRUE(cache_->stage(step.ids, *step.rows).is_ok());
      wait(step);
      release(step);
    }
    EXPECT_EQ(cache_->metrics().rows_staged, metrics.rows_staged);
  }

  const ModelCase& case_;
  Random random_;
  std::unordered_set<RowId> failing_;
  std::unordered_set<RowId> hanging_;
  FakeRowSource source_;
  FakePlacementStream stream_;
  std::unique_ptr<RowCache> cache_;
  std::array<Step, 4> steps_;
  std::uint64_t prefetched_ = 0;
};

class RowCacheModel : public testing::TestWithParam<ModelCase> {};

TEST_P(RowCacheModel, HoldsUnderRandomStepsAndFaults) {
  const auto end = std::chrono::steady_clock::now() + soak_time() / kCases.size();
  do {
    CacheModel(GetParam()).run(GetParam().row_count > 10'000 ? 400 : 2000);
  } while (std::chrono::steady_clock::now() < end && !HasFailure());
}

INSTANTIATE_TEST_SUITE_P(, RowCacheModel, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ple::test
