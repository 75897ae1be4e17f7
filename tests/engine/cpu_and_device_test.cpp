// The CPU is the oracle: engines of one model on both devices take the same batches and go on from
// each other's snapshots.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/model_cases.hpp"
#include "support/ple_oracle.hpp"
#include "support/random.hpp"
#include "support/test_device.hpp"

namespace ple::test {
namespace {

constexpr ple_arithmetic kArithmetics[] = {PLE_ARITHMETIC_FLOAT32, PLE_ARITHMETIC_MIXED,
                                           PLE_ARITHMETIC_REFERENCE};

// Of a whole test: sums are added in another order, and where one lies between two bf16 numbers its
// rounding, and what follows from it, may differ.
double tolerance_of(ple_arithmetic arithmetic) {
  return arithmetic == PLE_ARITHMETIC_FLOAT32 ? 1e-5 : 2e-3;
}

constexpr std::int32_t kTokensMax = 200;
constexpr std::size_t kSequences = 4;
constexpr std::int32_t kDraftMax = 6;

// What one sequence takes in a step.
struct Portion {
  std::size_t sequence;
  std::vector<std::int32_t> tokens;
  std::int32_t accepted;
};

// An engine with sequences and a step.
class Side {
 public:
  Side(const RandomModel& model, const char* device, ple_arithmetic arithmetic)
      : model_(model),
        engine_(pleiades::Engine::open(model.model(), {.device = device,
                                                       .arithmetic = arithmetic,
                                                       .arena = PLE_ARENA_CACHED,
                                                       .cache_bytes = 4096,
                                                       .draft_max = kDraftMax})),
        step_(engine_, {.tokens_max = kTokensMax, .sequences_max = kSequences}) {
    for (std::size_t i = 0; i < kSequences; ++i) sequences_.emplace_back(engine_);
  }

  pleiades::Sequence& sequence(std::size_t i) { return sequences_[i]; }

  // One step; what every layer adds.
  std::vector<float> run(std::span<const Portion> batch) {
    std::vector<pleiades::Part> parts;
    std::vector<std::int32_t> accepted;
    std::vector<float> input;
    for (const Portion& portion : batch) {
      pleiades::Sequence& sequence = sequences_[portion.sequence];
      const auto more = highway_at(portion.sequence, sequence.position(), portion.tokens.size(),
                                   model_.sizes().highway());
      input.insert(input.end(), more.begin(), more.end());
      parts.push_back({sequence, portion.tokens});
      accepted.push_back(portion.accepted);
    }
    step_.stage(parts);
    std::vector<float> added;
    for (const std::int32_t layer : model_.sizes().layers) {
      std::vector<float> output(input.size());
      ple_run_args args = PLE_RUN_ARGS_INIT;
      args.mode = PLE_OUTPUT_DELTA;
      args.input = input.data();
      args.output = output.data();
      step_.run(layer, args);
      added.insert(added.end(), output.begin(), output.end());
    }
    step_.commit(accepted);
    return added;
  }

 private:
  const RandomModel& model_;
  pleiades::Engine engine_;
  pleiades::Step step_;
  std::vector<pleiades::Sequence> sequences_;
};

class CpuAndDevice : public testing::TestWithParam<ModelCase> {
 protected:
  void SetUp() override { skip_without_device(); }

  std::vector<std::int32_t> random_tokens(std::size_t count) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) {
      token = random_.chance(0.1)
                  ? RandomModel::kEos
                  : static_cast<std::int32_t>(random_.between(0, RandomModel::kVocab - 1));
    }
    return tokens;
  }

  // Some of the sequences, in any order, with prompts, single tokens, drafts, and nothing at all.
  std::vector<Portion> random_batch() {
    std::vector<Portion> batch;
    for (std::size_t i = 0; i < kSequences; ++i) {
      if (random_.chance(0.3)) continue;
      const std::int64_t most = random_.chance(0.2) ? kTokensMax / kSequences : 3;
      Portion portion{.sequence = i,
                      .tokens = random_tokens(static_cast<std::size_t>(random_.between(0, most))),
                      .accepted = 0};
      const auto count = static_cast<std::int32_t>(portion.tokens.size());
      portion.accepted =
          random_.chance(0.7)
              ? count
              : count - static_cast<std::int32_t>(random_.between(0, std::min(count, kDraftMax)));
      batch.push_back(std::move(portion));
    }
    std::shuffle(batch.begin(), batch.end(), random_.engine());
    return batch;
  }

  // Both take a batch.
  void run_on(Side& cpu, Side& device, std::span<const Portion> batch) {
    for (const auto& [side, out] : {std::pair(&cpu, &wanted_), std::pair(&device, &got_)}) {
      const std::vector<float> added = side->run(batch);
      out->insert(out->end(), added.begin(), added.end());
    }
  }

  // What both added since.
  void expect_close(ple_arithmetic arithmetic) {
    ASSERT_EQ(got_.size(), wanted_.size());
    EXPECT_LT(relative_error(got_, wanted_), tolerance_of(arithmetic));
    got_.clear();
    wanted_.clear();
  }

  Random random_;
  RandomModel model_{sizes_of(GetParam(), random_), random_.bits()};
  std::vector<float> wanted_, got_;
};

TEST_P(CpuAndDevice, TakeTheSameBatchesToTheSameResults) {
  for (const ple_arithmetic arithmetic : kArithmetics) {
    SCOPED_TRACE(arithmetic);
    Side cpu(model_, "cpu", arithmetic);
    Side device(model_, test_device(), arithmetic);
    for (int step = 0; step < 12; ++step) run_on(cpu, device, random_batch());
    expect_close(arithmetic);
  }
}

// Whatever a snapshot holds comes back bit by bit; what follows from it is as close as ever.
TEST_P(CpuAndDevice, GoOnFromEachOthersSnapshots) {
  for (const ple_arithmetic arithmetic : kArithmetics) {
    SCOPED_TRACE(arithmetic);
    Side cpu(model_, "cpu", arithmetic);
    Side device(model_, test_device(), arithmetic);
    for (const auto& [from, to] : {std::pair(&cpu, &device), std::pair(&device, &cpu)}) {
      for (const ple_snapshot_kind kind : {PLE_SNAPSHOT_COMPACT, PLE_SNAPSHOT_FULL}) {
        const auto length = static_cast<std::size_t>(random_.between(0, 40));
        from->sequence(0).rewind(0);
        from->run({{{0, random_tokens(length), static_cast<std::int32_t>(length)}}});
        const auto blob = from->sequence(0).snapshot(kind);
        to->sequence(0).restore(blob);
        EXPECT_EQ(to->sequence(0).snapshot(kind), blob);
        run_on(cpu, device, {{{0, random_tokens(15), 15}}});
      }
    }
    expect_close(arithmetic);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuAndDevice, testing::ValuesIn(model_cases()),
                         [](const auto& test) { return test.param.name; });

// A model that the kernels do not run is refused with its name and the reason, before its table is
// read; a CPU runs it.
TEST(Device, AModelThatTheKernelsDoNotRunIsRefusedByName) {
  skip_without_device();
  if (IsSkipped()) return;
  Random random;
  const std::pair<ModelSizes, const char*> refused[] = {
      {{.hidden = 36}, "hidden 36 is no multiple of 8"},
      {{.stream_count = 9}, "9 streams, of 1 to 8"},
      {{.tap_count = 1}, "a convolution of 1 taps, of 2 to 4"},
      {{.tap_count = 5}, "a convolution of 5 taps, of 2 to 4"}};
  for (const auto& [sizes, reason] : refused) {
    SCOPED_TRACE(reason);
    const RandomModel model(sizes, random.bits());
    Side(model, "cpu", PLE_ARITHMETIC_FLOAT32).run({{{0, {1, 2, 3, 4, 5}, 5}}});
    try {
      open_engine(model.model());
      ADD_FAILURE() << "not refused";
    } catch (const pleiades::Error& error) {
      EXPECT_EQ(error.status(), PLE_UNSUPPORTED);
      EXPECT_NE(std::string(error.what()).find(reason), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("described model: layer 1: "), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace ple::test
