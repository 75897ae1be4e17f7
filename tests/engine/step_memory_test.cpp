#include <new>

#include "engine_support.hpp"
#include "support/allocation_count.hpp"
#include "support/temp_directory.hpp"

namespace ple::test {
namespace {

const std::vector<TokenId> kTokens = {1, 2, 3, 4, 5, 6, 7, 8};

// Stages while the allocation after so many others fails. False if memory sufficed.
bool stage_fails_after(Stream& stream, std::int64_t allocation_count) {
  fail_allocation_after(allocation_count);
  try {
    const Status status = stream.stage(kTokens);
    fail_allocation_after(-1);
    expect_ok(status);
    return false;
  } catch (const std::bad_alloc&) {
    fail_allocation_after(-1);
    return true;
  }
}

class StepMemory : public testing::TestWithParam<std::uint64_t> {};

// Whichever allocation of a first stage fails: nothing is leased, and the step stages again.
TEST_P(StepMemory, RunningOutWhileStagingLeavesNothing) {
  const std::vector<float> wanted = undisturbed({{kTokens}});
  std::int64_t failure_count = 0;
  for (bool has_failed = true; has_failed; failure_count += has_failed ? 1 : 0) {
    const auto engine = open_engine({.arena = Arena::cached, .cache_bytes = GetParam()});
    Stream stream(engine);
    has_failed = stage_fails_after(stream, failure_count);
    if (has_failed) {
      EXPECT_EQ(leases_of(*engine), 0U);
      expect_ok(stream.stage(kTokens));
    }
    expect_ok(stream.finish());
    EXPECT_EQ(stream.outputs(), wanted) << "after allocation " << failure_count;
    EXPECT_EQ(leases_of(*engine), 0U);
  }
  EXPECT_GT(failure_count, 0);
}

// Also a staged step, and an engine that has hot rows to save.
TEST_P(StepMemory, ReleasingNeedsNone) {
  const TempDirectory directory;
  for (std::int64_t allocations = 0; allocations < 20; ++allocations) {
    const std::string file = directory.path("warm-" + std::to_string(allocations));
    auto engine =
        open_engine({.arena = Arena::cached, .cache_bytes = GetParam(), .warm_start = file});
    {
      Stream stream(engine);
      expect_ok(stream.stage(kTokens));
      expect_ok(stream.finish());
      expect_ok(stream.stage(kTokens));
      fail_allocation_after(allocations);
    }
    engine.reset();
    fail_allocation_after(-1);
  }
}

// Stage, wait, run and commit, hits and misses.
TEST_P(StepMemory, WarmStepsAllocateNothing) {
  const auto engine = open_engine({.arena = Arena::cached, .cache_bytes = GetParam()});
  Stream stream(engine);
  std::vector<TokenId> tokens(8);
  std::uint64_t before = 0;
  for (TokenId round = 0; round < 100; ++round) {
    if (round == 50) before = allocation_count();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = (round * 37 + static_cast<TokenId>(i) * 11) % 256;
    }
    expect_ok(stream.stage(tokens));
    expect_ok(stream.run());
    expect_ok(stream.step().commit({}));
  }
  EXPECT_EQ(allocation_count() - before, 0U);
}

INSTANTIATE_TEST_SUITE_P(CacheBytes, StepMemory, testing::Values(0, 4096, 1 << 20));

}  // namespace
}  // namespace ple::test
