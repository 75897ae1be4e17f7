#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "engine_support.hpp"
#include "support/random.hpp"
#include "support/temp_directory.hpp"

namespace ple::test {
namespace {

// Enough tokens that the hot rows are more than what opening an engine starts to read.
constexpr std::size_t kSteps = 60;

std::vector<std::vector<TokenId>> random_stretches() {
  Random random;
  std::vector<std::vector<TokenId>> stretches(kSteps, std::vector<TokenId>(kTokensMax));
  for (std::vector<TokenId>& tokens : stretches) {
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.between(0, 255));
  }
  return stretches;
}

Stream stream_of(const std::shared_ptr<Engine>& engine,
                 std::span<const std::vector<TokenId>> stretches) {
  Stream stream(engine);
  for (const std::vector<TokenId>& tokens : stretches) {
    expect_ok(stream.stage(tokens));
    expect_ok(stream.finish());
  }
  return stream;
}

class WarmStartTest : public testing::Test {
 protected:
  WarmStartTest() {
    const auto engine = open_engine(options_);
    stream_of(engine, stretches_);
    const RowCacheMetrics rows = engine->metrics().rows;
    row_count_ = rows.rows_missed - rows.rows_staged - rows.rows_evicted;
  }

  const TempDirectory directory_;
  const EngineOptions options_{
      .arena = Arena::cached, .cache_bytes = 1 << 20, .warm_start = directory_.path("hot_rows")};
  const std::vector<std::vector<TokenId>> stretches_ = random_stretches();
  std::uint64_t row_count_ = 0;  // in the caches of an engine that took the stretches
};

TEST_F(WarmStartTest, ReadsEveryHotRowBack) {
  const auto engine = open_engine(options_);
  while (engine->metrics().rows.rows_prefetched < row_count_) std::this_thread::yield();
  EXPECT_EQ(stream_of(engine, stretches_).outputs(), undisturbed(stretches_));
  EXPECT_GE(engine->metrics().rows.rows_hit, row_count_);
}

TEST_F(WarmStartTest, GoesOnBesideSteps) {
  EXPECT_EQ(stream_of(open_engine(options_), stretches_).outputs(), undisturbed(stretches_));
}

TEST_F(WarmStartTest, StopsWithItsEngine) {
  for (int round = 0; round < 3; ++round) open_engine(options_);
}

TEST_F(WarmStartTest, LeavesAForeignFileAlone) {
  EngineOptions options = options_;
  options.warm_start = directory_.path("notes");
  std::ofstream(options.warm_start) << "not hot rows";
  stream_of(open_engine(options), stretches_);
  std::string line;
  std::getline(std::ifstream(options.warm_start), line);
  EXPECT_EQ(line, "not hot rows");
}

// It would be waited for until somebody writes to it.
TEST_F(WarmStartTest, LeavesAQueueAlone) {
  EngineOptions options = options_;
  options.warm_start = directory_.path("queue");
  ASSERT_EQ(::mkfifo(options.warm_start.c_str(), 0600), 0);
  stream_of(open_engine(options), stretches_);
  EXPECT_TRUE(std::filesystem::is_fifo(options.warm_start));
}

}  // namespace
}  // namespace ple::test
