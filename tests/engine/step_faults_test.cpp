// Faults of the table's files, seen from a step: it says so, moves nothing, and works again once
// they are over; a step beside it never notices.

#include <atomic>
#include <cerrno>
#include <ostream>

#include "engine_support.hpp"
#include "support/faulty_queue.hpp"

namespace ple::test {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kAllReads = UINT64_MAX;

struct FaultCase {
  const char* name;
  Fault fault;
  std::uint64_t read_count;  // of the step's reads, from the first
  const char* words;         // of the step's failure; null: it succeeds
};

void PrintTo(const FaultCase& fault_case, std::ostream* out) { *out << fault_case.name; }

const FaultCase kCases[] = {
    {"EioOnOneRead", Fault::fail(EIO), 1, "Input/output error"},
    {"EioOnEveryRead", Fault::fail(EIO), kAllReads, "Input/output error"},
    {"Interrupted", Fault::fail(EINTR), 5, nullptr},
    {"TryAgain", Fault::fail(EAGAIN), 5, nullptr},
    {"TryAgainForever", Fault::fail(EAGAIN), kAllReads, "Resource temporarily unavailable"},
    {"RingFull", Fault::refuse(), 5, nullptr},
    {"RingFullForever", Fault::refuse(), kAllReads, "times in a row"},
    {"ShortReads", Fault::shorten(512), kAllReads, nullptr},
    {"EndOfFile", Fault::shorten(0), 1, "ends at byte"},
    {"Late", Fault::hold(), 1, "did not arrive within 1000 ms"},
    {"AllLate", Fault::hold(), kAllReads, "did not arrive within 1000 ms"},
};

class StepFaults : public testing::TestWithParam<FaultCase> {
 protected:
  const std::vector<TokenId> first_[2] = {{1, 2, 3, 4, 5}, {11, 12, 13, 14}};
  const std::vector<TokenId> second_[2] = {{21, 22, 23}, {31, 32, 33, 34, 35, 36}};
};

TEST_P(StepFaults, FailTheirStepAlone) {
  const FaultCase& fault_case = GetParam();
  FaultPlan faults;
  EngineOptions options;
  if (fault_case.fault.kind == Fault::Kind::hold) options.read_deadline_ms = 1000;
  options.reader.wrap_queue = faults.wrap();
  const auto engine = open_engine(options);
  Stream faulty(engine);
  Stream other(engine);
  expect_ok(faulty.stage(first_[0]));
  expect_ok(faulty.finish());
  expect_ok(other.stage(first_[1]));
  expect_ok(other.step().wait());

  std::atomic<std::uint64_t> read_count = 0;
  faults.set_rule([&](const ReadOperation&) {
    return read_count++ < fault_case.read_count ? fault_case.fault : Fault::none();
  });
  expect_ok(faulty.stage(second_[0]));
  const Status status = faulty.step().wait();
  faults.set_rule({});
  EXPECT_GT(read_count, 0U);
  if (fault_case.words == nullptr) {
    expect_ok(status);
  } else {
    EXPECT_THAT(status.message(), HasSubstr(fault_case.words));
    EXPECT_THAT(status.message(), HasSubstr("safetensors"));
    EXPECT_EQ(faulty.finish().message(), status.message());
    faulty.step().discard();
    expect_ok(other.finish());
    expect_ok(other.stage(second_[1]));
    expect_ok(faulty.stage(second_[0]));
  }
  faults.release();
  expect_ok(faulty.finish());
  if (fault_case.words == nullptr) {
    expect_ok(other.finish());
    expect_ok(other.stage(second_[1]));
  }
  expect_ok(other.finish());

  EXPECT_EQ(faulty.outputs(), undisturbed({{first_[0], second_[0]}}));
  EXPECT_EQ(other.outputs(), undisturbed({{first_[1], second_[1]}}));
  EXPECT_EQ(leases_of(*engine), 0U);
}

INSTANTIATE_TEST_SUITE_P(, StepFaults, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

// Wherever the two stand, after a step that held the same sequences, and with nothing left staged.
TEST(StepBatch, TakesASequenceOnce) {
  const auto engine = open_engine({.cache_bytes = 1 << 20});
  const auto one = std::move(Sequence::create(engine)).value();
  const auto other = std::move(Sequence::create(engine)).value();
  const auto step = std::move(Step::create(engine, kTokensMax, 3)).value();
  const std::vector<std::int32_t> counts = {1, 1, 1};
  const std::vector<TokenId> tokens = {5, 6, 7};
  const auto stage = [&](const std::vector<std::shared_ptr<Sequence>>& sequences) {
    return step->stage({.sequences = sequences,
                        .token_counts = std::span(counts).first(sequences.size()),
                        .tokens = std::span(tokens).first(sequences.size()),
                        .positions = {}});
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(stage({one, other, one}).message(), "sequence 2 stands in the batch twice");
    EXPECT_EQ(stage({one, one}).message(), "sequence 1 stands in the batch twice");
    EXPECT_EQ(one->timeline().staged_count() + other->timeline().staged_count(), 0U);
    EXPECT_EQ(leases_of(*engine), 0U);
    expect_ok(stage({other, one}));
    expect_ok(step->commit({}));
  }
  EXPECT_EQ(one->timeline().position(), 2);
}

}  // namespace
}  // namespace ple::test
