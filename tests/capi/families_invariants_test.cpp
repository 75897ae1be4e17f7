// The invariants of specification E for every family but qwen4_exp (invariants_test.cpp has that
// one): the output bits of a sequence depend on its tokens and inputs alone; and what EOS, dead and
// ignored tokens change.

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "support/family_layer.hpp"
#include "support/random.hpp"
#include "support/same_bits.hpp"
#include "support/test_device.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kTokens = 48;
constexpr std::int32_t kEos = 2;  // of the golden LongCat models

using Tokens = std::vector<std::int32_t>;
using Values = std::vector<float>;

class FamilyInvariants : public testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override { skip_without_device(); }

  Tokens random_tokens(std::size_t count) {
    Tokens tokens(count);
    const std::int64_t last = layer_.model().info().vocab_size - 1;
    for (std::int32_t& token : tokens) {
      token = static_cast<std::int32_t>(random_.between(0, last));
      if (random_.chance(0.1)) token = kEos;
      if (layer_.has_dead_tokens() && random_.chance(0.1)) token = -1;
    }
    return tokens;
  }

  Values random_input(std::size_t count) {
    Values input(count * in_);
    for (float& value : input) value = static_cast<float>(random_.between(-999, 999)) * 0.001F;
    return input;
  }

  std::span<const float> part(const Values& values, std::size_t begin, std::size_t count,
                              std::size_t elements) const {
    return std::span(values).subspan(begin * elements, count * elements);
  }

  // Tokens [position of the sequence, + count) through the layer; their outputs.
  Values advance(pleiades::Step& step, pleiades::Sequence& sequence, const Tokens& tokens,
                 const Values& input, std::size_t count,
                 ple_output_mode mode = PLE_OUTPUT_DELTA) const {
    const auto begin = static_cast<std::size_t>(sequence.position());
    step.stage(sequence, std::span(tokens).subspan(begin, count));
    Values out =
        run_staged(step, layer_.info(), part(input, begin, count, in_), count, PLE_F32, mode);
    step.commit();
    return out;
  }

  // What the outputs must be: one step over all tokens, every row in memory.
  Values expected(const Tokens& tokens, const Values& input,
                  ple_output_mode mode = PLE_OUTPUT_DELTA) const {
    auto engine =
        open_engine(layer_.model(), {.device = test_device(), .arena = PLE_ARENA_RESIDENT});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    return advance(step, sequence, tokens, input, tokens.size(), mode);
  }

  void expect_same(std::span<const float> got, const Values& wanted, std::size_t position) const {
    EXPECT_TRUE(same_bits(got, std::span(wanted).subspan(position * out_, got.size())))
        << "tokens from " << position << " on";
  }
  bool is_same_at(const Values& a, const Values& b, std::size_t position) const {
    return same_bits(std::span(a).subspan(position * out_, out_),
                     std::span(b).subspan(position * out_, out_));
  }

  Random random_;
  const FamilyLayer layer_{GetParam()};
  const std::size_t in_ = static_cast<std::size_t>(layer_.info().input_elements);
  const std::size_t out_ = static_cast<std::size_t>(layer_.info().output_elements);
  const Tokens tokens_ = random_tokens(kTokens);
  const Values input_ = random_input(kTokens);
};

TEST_P(FamilyInvariants, E1RandomSplitsThreadsAndCachesGiveTheSameBits) {
  const Values whole = expected(tokens_, input_);
  for (int round = 0; round < 20; ++round) {
    auto engine = open_engine(layer_.model(),
                              {.arena = random_.chance(0.5) ? PLE_ARENA_CACHED : PLE_ARENA_AUTO,
                               .cache_bytes = static_cast<std::uint64_t>(random_.between(0, 20000)),
                               .thread_count = static_cast<std::int32_t>(random_.between(1, 4))});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    for (std::size_t at = 0; at < kTokens;) {
      const auto count = static_cast<std::size_t>(
          random_.between(0, static_cast<std::int64_t>(std::min<std::size_t>(kTokens - at, 20))));
      expect_same(advance(step, sequence, tokens_, input_, count), whole, at);
      at += count;
    }
  }
}

TEST_P(FamilyInvariants, E7SnapshotRestoreContinuesAsIfNeverStopped) {
  const Values whole = expected(tokens_, input_);
  for (const ple_snapshot_kind kind : {PLE_SNAPSHOT_COMPACT, PLE_SNAPSHOT_FULL}) {
    for (const std::size_t stop : {0, 1, 2, 3, 5, 9, 13, 33, 47}) {
      auto engine = open_engine(layer_.model(), {.cache_bytes = 0});
      pleiades::Sequence sequence(engine);
      pleiades::Step step(engine);
      expect_same(advance(step, sequence, tokens_, input_, stop), whole, 0);
      const auto blob = sequence.snapshot(kind);

      pleiades::Sequence restored(engine);
      advance(step, restored, random_tokens(20), random_input(20), 20);  // a recycled sequence
      restored.restore(blob);
      restored.restore(blob);  // twice is once
      EXPECT_EQ(restored.snapshot(kind), blob);
      for (std::size_t at = stop; at < kTokens;) {
        const std::size_t count = std::min<std::size_t>(4, kTokens - at);
        expect_same(advance(step, restored, tokens_, input_, count), whole, at);
        at += count;
      }
      // The first sequence is independent of all that.
      expect_same(advance(step, sequence, tokens_, input_, kTokens - stop), whole, stop);
    }
  }
}

TEST_P(FamilyInvariants, E8DraftsAcceptedInPartEqualRunningTheAcceptedAlone) {
  const Values whole = expected(tokens_, input_);
  auto engine = open_engine(layer_.model(), {.draft_max = 5});
  for (int round = 0; round < 10; ++round) {
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    while (sequence.position() < static_cast<std::int64_t>(kTokens) - 6) {
      const auto at = static_cast<std::size_t>(sequence.position());
      const auto count = static_cast<std::size_t>(random_.between(1, 6));
      const auto accepted =
          static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(count)));
      // Right tokens as far as they will be accepted, wrong drafts behind.
      Tokens drafts = random_tokens(count);
      std::copy_n(tokens_.begin() + static_cast<std::ptrdiff_t>(at), accepted, drafts.begin());
      step.stage(sequence, drafts);
      const Values out = run_staged(step, layer_.info(), part(input_, at, count, in_), count,
                                    PLE_F32, PLE_OUTPUT_DELTA);
      expect_same(part(out, 0, accepted, out_), whole, at);
      step.commit({{static_cast<std::int32_t>(accepted)}});
    }
  }
}

TEST_P(FamilyInvariants, RewoundAndRecycledSequencesContinueWithTheSameBits) {
  const Values whole = expected(tokens_, input_);
  auto engine = open_engine(layer_.model(), {.draft_max = 4});
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  std::int64_t furthest = 0;
  for (int round = 0; round < 100; ++round) {
    const auto at = static_cast<std::size_t>(sequence.position());
    const auto count = static_cast<std::size_t>(
        random_.between(0, static_cast<std::int64_t>(std::min<std::size_t>(kTokens - at, 12))));
    expect_same(advance(step, sequence, tokens_, input_, count), whole, at);
    furthest = std::max(furthest, sequence.position());
    if (random_.chance(0.5)) {
      const std::int64_t least = std::max<std::int64_t>(0, furthest - 4);
      sequence.rewind(random_.between(least, sequence.position()));
    }
    if (random_.chance(0.1)) {
      sequence.rewind(0);
      furthest = 0;
    }
  }
}

TEST_P(FamilyInvariants, E9CompanyInABatchChangesNothing) {
  constexpr std::size_t kSequences = 4;
  auto engine = open_engine(layer_.model(), {.arena = PLE_ARENA_CACHED, .cache_bytes = 5000});
  std::vector<Tokens> tokens;
  std::vector<Values> inputs, wholes;
  std::vector<pleiades::Sequence> sequences;
  for (std::size_t s = 0; s < kSequences; ++s) {
    tokens.push_back(random_tokens(kTokens));
    inputs.push_back(random_input(kTokens));
    wholes.push_back(expected(tokens[s], inputs[s]));
    sequences.emplace_back(engine);
  }
  pleiades::Step step(engine);
  for (int round = 0; round < 30; ++round) {
    std::vector<std::size_t> order = {0, 1, 2, 3};
    std::shuffle(order.begin(), order.end(), random_.engine());
    order.resize(static_cast<std::size_t>(random_.between(1, kSequences)));
    std::vector<pleiades::Part> parts;
    std::vector<std::size_t> begins;
    Values input;
    std::size_t count = 0;
    for (const std::size_t s : order) {
      begins.push_back(static_cast<std::size_t>(sequences[s].position()));
      const auto taken = static_cast<std::size_t>(random_.between(
          0, static_cast<std::int64_t>(std::min<std::size_t>(kTokens - begins.back(), 9))));
      parts.push_back({sequences[s], std::span(tokens[s]).subspan(begins.back(), taken)});
      const auto from = part(inputs[s], begins.back(), taken, in_);
      input.insert(input.end(), from.begin(), from.end());
      count += taken;
    }
    step.stage(parts);
    const Values out = run_staged(step, layer_.info(), input, count, PLE_F32, PLE_OUTPUT_DELTA);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      expect_same(part(out, begin, parts[i].tokens.size(), out_), wholes[order[i]], begins[i]);
      begin += parts[i].tokens.size();
    }
    step.commit();
  }
}

TEST_P(FamilyInvariants, E11AnEmptyBatchLeavesEverythingAsItIs) {
  auto engine = open_engine(layer_.model());
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  advance(step, sequence, tokens_, input_, 12);
  const auto before = sequence.snapshot(PLE_SNAPSHOT_FULL);
  step.stage(sequence, {});
  step.commit();
  EXPECT_EQ(sequence.snapshot(PLE_SNAPSHOT_FULL), before);
}

TEST_P(FamilyInvariants, OnlyTheDemoCarriesFloats) {
  const auto engine = open_engine(layer_.model());
  EXPECT_EQ(engine.info().sequence_bytes > 0, layer_.family() == PLE_FAMILY_ENGRAM_DEMO);
  EXPECT_EQ(layer_.info().window > 0, layer_.family() == PLE_FAMILY_ENGRAM_DEMO);
}

TEST_P(FamilyInvariants, TheStreamUpdatedIsTheStreamAndTheDelta) {
  if (!layer_.has_token_map()) return;  // these two families have a stream
  const Values delta = expected(tokens_, input_);
  const Values updated = expected(tokens_, input_, PLE_OUTPUT_UPDATE);
  for (std::size_t i = 0; i < delta.size(); ++i) ASSERT_EQ(updated[i], input_[i] + delta[i]);
}

INSTANTIATE_TEST_SUITE_P(All, FamilyInvariants, testing::ValuesIn(kFamilyCases));

class EngramInvariants : public FamilyInvariants {};

TEST_P(EngramInvariants, E4ADeadTokenChangesItsOwnPositionAndThoseThatLookBackOnIt) {
  Tokens tokens = random_tokens(kTokens);
  // Below the id of images, which is dead by itself.
  for (std::int32_t& token : tokens) token = std::max(token, 0) % 60;
  const Values before = expected(tokens, input_);
  const auto lookback = static_cast<std::size_t>(layer_.model().info().lookback);
  const auto columns = static_cast<std::size_t>(layer_.info().column_count);
  const auto row_ids = [&](const Tokens& of) {
    std::vector<std::uint32_t> ids(kTokens * columns);
    layer_.model().row_ids(layer_.info().layer_index, of, ids.data());
    return ids;
  };
  const auto ids_before = row_ids(tokens);
  for (const std::size_t dead : {0, 1, 5, 30, 47}) {
    Tokens changed = tokens;
    changed[dead] = -1;
    const Values after = expected(changed, input_);
    const auto ids_after = row_ids(changed);
    for (std::size_t position = 0; position < kTokens; ++position) {
      const auto begin = static_cast<std::ptrdiff_t>(position * columns);
      const bool same_ids =
          std::equal(ids_after.begin() + begin,
                     ids_after.begin() + begin + static_cast<std::ptrdiff_t>(columns),
                     ids_before.begin() + begin);
      if (position < dead || position > dead + lookback) {
        EXPECT_TRUE(same_ids);
      }
      if (position == dead) {
        EXPECT_FALSE(is_same_at(after, before, position));
      } else if (same_ids) {
        EXPECT_TRUE(is_same_at(after, before, position))
            << position << " where " << dead << " is dead";
      }
    }
  }
}

TEST_P(EngramInvariants, E4DeadPositionsKeepTheirStreamBitForBit) {
  const Tokens dead(kTokens, -1);
  Values input = input_;
  for (std::size_t i = 0; i < input.size(); i += 7) input[i] = -0.0F;
  const Values updated = expected(dead, input, PLE_OUTPUT_UPDATE);
  expect_same(updated, input, 0);
  const Values delta = expected(dead, input);
  EXPECT_EQ(std::count(delta.begin(), delta.end(), 0.0F), std::ssize(delta));
}

INSTANTIATE_TEST_SUITE_P(V41, EngramInvariants, testing::ValuesIn(family_cases("engram_v41")));

class LongcatInvariants : public FamilyInvariants {};

TEST_P(LongcatInvariants, E3TheSuffixAfterEosIsAFreshSequence) {
  Tokens tokens = random_tokens(kTokens);
  tokens[19] = kEos;
  const Values whole = expected(tokens, {});
  const Tokens suffix(tokens.begin() + 20, tokens.end());
  expect_same(expected(suffix, {}), whole, 20);
  // The EOS itself still sees what lies before it.
  Tokens changed = tokens;
  changed[18] = changed[18] == 5 ? 6 : 5;
  EXPECT_FALSE(is_same_at(expected(changed, {}), whole, 19));
  EXPECT_TRUE(is_same_at(expected(changed, {}), whole, 20));
}

INSTANTIATE_TEST_SUITE_P(All, LongcatInvariants, testing::ValuesIn(family_cases("longcat")));

class GemmaInvariants : public FamilyInvariants {};

TEST_P(GemmaInvariants, OutputsDependOnNoOtherPosition) {
  const Values whole = expected(tokens_, input_);
  for (std::size_t position = 0; position < kTokens; ++position) {
    const auto own = part(input_, position, 1, in_);
    expect_same(expected({tokens_[position]}, {own.begin(), own.end()}), whole, position);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GemmaInvariants, testing::ValuesIn(family_cases("gemma")));

}  // namespace
}  // namespace ple::test
