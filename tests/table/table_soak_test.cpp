// Random batches of several threads under random faults, against the bytes that every row must
// have. A second each way; PLE_SOAK_SECONDS makes it run that long in all.

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "support/faulty_queue.hpp"
#include "support/random.hpp"
#include "support/row_reading.hpp"
#include "support/table_files.hpp"
#include "table/table.hpp"

namespace ple {
namespace {

using test::Fault;

constexpr std::size_t kThreads = 3;

struct Way {
  const char* name;
  IoBackend backend;
  DirectIo direct;

  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

class TableSoakTest : public testing::TestWithParam<Way> {
 protected:
  static std::chrono::milliseconds time() {
    const char* text = std::getenv("PLE_SOAK_SECONDS");
    return text == nullptr ? std::chrono::milliseconds(1000)
                           : std::chrono::milliseconds(std::atoi(text) * 1000 / 3);
  }

  Fault random_fault(const ReadOperation& read) {
    if (fault_random_.chance(0.8)) return Fault::none();
    switch (fault_random_.between(0, 5)) {
      case 0:
        return Fault::fail(EIO);
      case 1:
        return Fault::fail(EINTR);
      case 2:
        return Fault::fail(EAGAIN);
      case 3:
        return Fault::refuse();
      case 4:
        return Fault::hold();
      default:
        return read.bytes <= 512 ? Fault::none() : Fault::shorten(read.bytes / 2 / 512 * 512);
    }
  }

  // One batch: what arrived is right, and all arrived or the status says why not.
  void step(Table& table, test::Random& random, const std::shared_ptr<RowReadBatch>& batch,
            test::RowDestinations& destinations) {
    ASSERT_TRUE(table.submit(destinations.reads(), batch).is_ok());
    const bool is_patient = random.chance(0.5);
    Status status = batch->wait(std::chrono::milliseconds(is_patient ? 20 : 0));
    faults_.release();
    bool all_arrived = true;
    for (std::size_t i = 0; i < destinations.reads().size(); ++i) {
      if (!batch->arrived(i)) {
        all_arrived = false;
        continue;
      }
      ASSERT_EQ(destinations.row(i), files_.row_string(destinations.reads()[i].row));
    }
    ASSERT_EQ(status.is_ok(), all_arrived) << status.message();
    ASSERT_TRUE(status.is_ok() || status.code() == StatusCode::deadline ||
                status.code() == StatusCode::io_error)
        << status.message();
  }

  void run(Table& table, std::uint64_t seed, std::chrono::steady_clock::time_point end) {
    test::Random random(seed);
    const auto batch = table.make_batch();
    // What a batch left behind stays as it is, whatever reads of it are still out.
    std::vector<std::unique_ptr<test::RowDestinations>> left;
    std::vector<std::string> left_bytes;
    while (std::chrono::steady_clock::now() < end) {
      std::vector<RowId> rows;
      for (std::int64_t i = random.between(1, 200); i > 0; --i) {
        rows.push_back(static_cast<RowId>(random.between(0, 1499)));
      }
      left.push_back(std::make_unique<test::RowDestinations>(rows, files_.row_bytes()));
      step(table, random, batch, *left.back());
      if (HasFatalFailure()) return;
      left_bytes.push_back(left.back()->bytes());
      if (left.size() < 50) continue;
      for (std::size_t i = 0; i < left.size(); ++i) ASSERT_EQ(left[i]->bytes(), left_bytes[i]);
      left.erase(left.begin(), left.begin() + 25);
      left_bytes.erase(left_bytes.begin(), left_bytes.begin() + 25);
    }
  }

  test::Random random_;
  test::Random fault_random_{random_.bits()};
  test::FaultPlan faults_;
  test::TableFiles files_{
      random_, {.row_count = 1500, .part_bytes = {256, 8}, .shard_count = 12, .file_count = 3}};
};

TEST_P(TableSoakTest, NothingIsEverWrong) {
  TableOptions options;
  options.direct = GetParam().direct;
  options.reader.backend = GetParam().backend;
  options.reader.depth = 8;
  options.reader.wrap_queue = faults_.wrap();
  auto opened = Table::open(files_.spec(), files_.files(), options);
  ASSERT_TRUE(opened.is_ok()) << opened.status().message();
  faults_.set_rule([this](const ReadOperation& read) { return random_fault(read); });
  const auto end = std::chrono::steady_clock::now() + time();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, seed = random_.bits()] { run(*opened.value(), seed, end); });
  }
  for (std::thread& thread : threads) thread.join();
  // Whatever happened: the next batch works.
  faults_.set_rule({});
  faults_.release();
  test::RowDestinations destinations(std::vector<RowId>{0, 700, 1499}, files_.row_bytes());
  const auto batch = opened.value()->make_batch();
  ASSERT_TRUE(opened.value()->submit(destinations.reads(), batch).is_ok());
  const Status status = batch->wait(std::chrono::minutes(5));
  EXPECT_TRUE(status.is_ok()) << status.message();
}

INSTANTIATE_TEST_SUITE_P(Ways, TableSoakTest,
                         testing::Values(Way{"uring", IoBackend::uring, DirectIo::automatic},
                                         Way{"pread", IoBackend::pread, DirectIo::automatic},
                                         Way{"buffered", IoBackend::pread, DirectIo::off}),
                         [](const auto& way) { return way.param.name; });

}  // namespace
}  // namespace ple
