// Steps of several threads on one cache, their reads delivered by another thread, some of them
// failing. Under the thread sanitizer this also checks the ordering of tags, marks and rows.
// PLE_SOAK_SECONDS makes it run that long.

#include <atomic>
#include <cstdlib>
#include <thread>

#include "cache/cache_support.hpp"
#include "cache/fake_device.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

using Delivery = FakeRowSource::Delivery;
using Fault = FakeRowSource::Fault;

constexpr std::uint64_t kRows = 600;
constexpr std::size_t kStepRows = 32;
constexpr std::uint32_t kFaultPeriod = 97;  // one read of so many fails

struct Tally {
  std::uint64_t asked = 0;
  std::uint64_t distinct = 0;
  std::uint64_t failed_steps = 0;
};

// Steps of one thread; two at a time, so that reads are joined within a thread as well.
class StepThread {
 public:
  StepThread(RowCache& cache, const FakeRowSource& source, FakePlacementStream* stream,
             std::uint64_t seed)
      : cache_(cache), source_(source), stream_(stream), engine_(seed) {
    for (auto& staged : staged_) staged = make_staged(cache, kStepRows);
  }

  void run(const std::function<bool()>& goes_on) {
    while (goes_on()) {
      for (std::size_t index = 0; index < 2; ++index) stage(index);
      for (std::size_t index = 0; index < 2; ++index) use(index);
      for (auto& staged : staged_) staged->release();
      if (engine_() % 8 == 0) {
        const auto begin = static_cast<RowId>(engine_() % (kRows - 16));
        EXPECT_TRUE(cache_.prefetch(row_range(begin, begin + 16)).is_ok());
      }
    }
  }

  const Tally& tally() const { return tally_; }

 private:
  void stage(std::size_t index) {
    ids_[index].resize(engine_() % kStepRows + 1);
    for (RowId& row : ids_[index]) {
      row = static_cast<RowId>(engine_() % (engine_() % 2 == 0 ? kRows / 20 : kRows));
    }
    const Status status = cache_.stage(ids_[index], *staged_[index]);
    EXPECT_TRUE(status.is_ok()) << status.message();
    tally_.asked += ids_[index].size();
    tally_.distinct += std::set<RowId>(ids_[index].begin(), ids_[index].end()).size();
  }

  void use(std::size_t index) {
    if (engine_() % 16 == 0) return;  // given up
    if (!staged_[index]->wait().is_ok()) {
      ++tally_.failed_steps;
      return;
    }
    if (stream_ != nullptr) {
      EXPECT_TRUE(staged_[index]->place(*stream_).is_ok());
      stream_->wait_for_latest_event();
    }
    EXPECT_TRUE(rows_are_right(source_, *staged_[index], ids_[index]));
  }

  RowCache& cache_;
  const FakeRowSource& source_;
  FakePlacementStream* stream_;
  std::mt19937_64 engine_;
  std::array<std::unique_ptr<StagedRows>, 2> staged_;
  std::array<std::vector<RowId>, 2> ids_;
  Tally tally_;
};

// Runs threads over a cache of slot_count slots.
void run_threads(std::uint64_t slot_count, bool on_device, bool with_faults) {
  Random random;
  FakeRowSource source(kRows, kRowBytes);
  source.set_delivery(Delivery::by_hand);
  std::atomic<std::uint32_t> read_count = 0;
  if (with_faults) {
    source.set_fault(
        [&](RowId) { return ++read_count % kFaultPeriod == 0 ? Fault::fail : Fault::none; });
  }
  FakePlacementStream stream;
  const auto cache =
      open_cache(source, slot_count, on_device ? device_options() : RowCacheOptions{});
  std::atomic<bool> is_over = false;
  std::thread disk([&] {
    for (std::uint64_t turn = 0; !is_over; ++turn) {
      if (source.pending_count() == 0) std::this_thread::yield();
      for (std::uint64_t read = 0; read < 16; ++read) source.deliver(turn * 7919 + read * 31);
    }
  });
  const char* soak = std::getenv("PLE_SOAK_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
                   std::chrono::seconds(soak == nullptr ? 0 : std::atoi(soak)) / 6;
  std::vector<std::unique_ptr<StepThread>> steps;
  std::vector<std::thread> threads;
  for (int index = 0; index < 3; ++index) {
    steps.push_back(
        std::make_unique<StepThread>(*cache, source, on_device ? &stream : nullptr, random.bits()));
    threads.emplace_back([&, step = steps.back().get()] {
      int round = 0;
      step->run([&] { return round++ < 300 || std::chrono::steady_clock::now() < end; });
    });
  }
  for (std::thread& thread : threads) thread.join();
  Tally total;
  for (const auto& step : steps) {
    total.asked += step->tally().asked;
    total.distinct += step->tally().distinct;
    total.failed_steps += step->tally().failed_steps;
  }
  steps.clear();
  is_over = true;
  disk.join();
  EXPECT_EQ(cache->metrics().rows_asked, total.asked);
  EXPECT_EQ(cache->leases_outstanding(), 0U);
  const RowCacheMetrics metrics = cache->metrics();
  EXPECT_EQ(metrics.rows_missed + metrics.rows_prefetched + metrics.rows_reread,
            source.rows_submitted());
  if (with_faults) {
    EXPECT_GT(total.failed_steps, 0U);
  } else {
    EXPECT_EQ(total.failed_steps, 0U);
    EXPECT_EQ(metrics.rows_distinct, total.distinct);
  }
}

TEST(RowCacheThreads, ShareSlotsAndReads) { run_threads(320, false, false); }
TEST(RowCacheThreads, ShareFewerSlotsThanTheyNeed) { run_threads(32, false, true); }
TEST(RowCacheThreads, SurviveFailedReads) { run_threads(320, false, true); }
TEST(RowCacheThreads, ShareDeviceMemory) { run_threads(320, true, false); }
TEST(RowCacheThreads, ShareLittleDeviceMemoryWithFailedReads) { run_threads(32, true, true); }
TEST(RowCacheThreads, NeedNoSlots) { run_threads(0, false, true); }

}  // namespace
}  // namespace ple::test
