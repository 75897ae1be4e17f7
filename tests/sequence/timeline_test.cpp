#include "sequence/timeline.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "support/random.hpp"

namespace ple {
namespace {

constexpr TimelineOptions kPast{.lookback = 2, .window = 9, .draft_max = 7};

std::vector<TokenId> tokens_from(TokenId first, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

void advance(Timeline& timeline, std::size_t count) {
  const auto tokens = tokens_from(static_cast<TokenId>(timeline.position()), count);
  const auto span = timeline.stage(tokens);
  ASSERT_TRUE(span.is_ok());
  ASSERT_TRUE(timeline.commit(span.value().ticket, static_cast<std::int32_t>(count)).is_ok());
}

TEST(Timeline, NothingMovesBeforeCommit) {
  Timeline timeline(kPast);
  const auto span = timeline.stage(tokens_from(10, 5)).value();
  EXPECT_EQ(timeline.position(), 0);
  EXPECT_EQ(timeline.staged_end(), 5);
  timeline.discard(span.ticket, false);
  EXPECT_EQ(timeline.staged_end(), 0);
  EXPECT_TRUE(timeline.history().empty());
}

TEST(Timeline, ASecondStagedStepSeesTheFirstOnesTokens) {
  Timeline timeline(kPast);
  const auto first = timeline.stage(tokens_from(10, 5)).value();
  EXPECT_EQ(timeline.history()[1], 14);
  const auto second = timeline.stage(tokens_from(15, 3)).value();
  EXPECT_EQ(second.position, 5);
  EXPECT_FALSE(timeline.check_runnable(second.ticket).is_ok());
  EXPECT_FALSE(timeline.stage(tokens_from(1, 1)).is_ok());
  ASSERT_TRUE(timeline.commit(first.ticket, 5).is_ok());
  EXPECT_TRUE(timeline.check_runnable(second.ticket).is_ok());
}

TEST(Timeline, DiscardingAStepTakesTheOneBehindItAlong) {
  Timeline timeline(kPast);
  const auto first = timeline.stage(tokens_from(10, 5)).value();
  const auto second = timeline.stage(tokens_from(15, 3)).value();
  timeline.discard(first.ticket, true);
  EXPECT_EQ(timeline.check_runnable(second.ticket).code(), StatusCode::wrong_state);
  timeline.discard(second.ticket, false);
  EXPECT_EQ(timeline.staged_end(), 0);
}

TEST(Timeline, RefusesToRejectMoreThanDraftMaxOrUnderALaterStep) {
  Timeline timeline(kPast);
  const auto first = timeline.stage(tokens_from(0, 20)).value();
  EXPECT_FALSE(timeline.commit(first.ticket, 12).is_ok());
  EXPECT_FALSE(timeline.commit(first.ticket, 21).is_ok());
  ASSERT_TRUE(timeline.stage(tokens_from(20, 1)).is_ok());
  EXPECT_FALSE(timeline.commit(first.ticket, 19).is_ok());
  EXPECT_EQ(timeline.position(), 0);
  EXPECT_TRUE(timeline.commit(first.ticket, 20).is_ok());
}

TEST(Timeline, RewindsDraftMaxTokensAfterAnyStepAndAlwaysToTheStart) {
  for (const std::size_t count : {1, 3, 8, 16, 17, 200}) {
    Timeline timeline(kPast);
    advance(timeline, 40);
    advance(timeline, count);
    const std::int64_t end = timeline.position();
    EXPECT_TRUE(timeline.rewind(end - kPast.draft_max).is_ok()) << count;
    EXPECT_EQ(timeline.history()[1], static_cast<TokenId>(end - kPast.draft_max - 1));
    EXPECT_FALSE(timeline.rewind(end).is_ok());
    EXPECT_TRUE(timeline.rewind(0).is_ok());
    EXPECT_TRUE(timeline.history().empty());
  }
}

// A ring that remembers which position each entry was written for, against the timeline's claims.
TEST(Timeline, TheRingAlwaysHoldsTheWindowUnderRandomSteps) {
  test::Random source;
  auto& random = source.engine();
  for (int round = 0; round < 200; ++round) {
    const TimelineOptions past{.lookback = static_cast<std::int32_t>(random() % 4),
                               .window = static_cast<std::int32_t>(1 + random() % 12),
                               .draft_max = static_cast<std::int32_t>(random() % 9)};
    Timeline timeline(past);
    std::vector<TokenId> committed;
    std::map<std::int32_t, std::int64_t> ring;  // entry -> position
    for (int step = 0; step < 60; ++step) {
      if (random() % 8 == 0 && timeline.position() > 0) {
        const std::int64_t to = timeline.position() - static_cast<std::int64_t>(random() % 12);
        if (to >= 0 && timeline.rewind(to).is_ok()) {
          committed.resize(static_cast<std::size_t>(to));
        }
      }
      const std::size_t count = random() % (random() % 4 == 0 ? 60 : 6);
      const auto tokens = tokens_from(static_cast<TokenId>(random() % 1000), count);
      const auto history = timeline.history();
      const std::size_t known = std::min<std::size_t>(committed.size(), history.size());
      ASSERT_EQ(history.size(),
                std::min<std::size_t>(committed.size(), static_cast<std::size_t>(past.lookback)));
      ASSERT_TRUE(std::equal(history.begin(), history.end(),
                             committed.end() - static_cast<std::ptrdiff_t>(known)));
      const StagedSpan span = timeline.stage(tokens).value();
      // Run: the window must be there, then the last write_count entries are written.
      const std::int32_t length = timeline.ring_length();
      for (std::int32_t back = 1; back <= past.window && span.position - back >= 0; ++back) {
        ASSERT_EQ(ring[(span.cursor - back + 2 * length) % length], span.position - back);
      }
      for (std::int32_t i = 0; i < span.write_count; ++i) {
        ring[(span.cursor + i) % length] = span.position + span.token_count - span.write_count + i;
      }
      if (random() % 5 == 0) {
        timeline.discard(span.ticket, true);
        continue;
      }
      const auto most = std::min<std::int64_t>(past.draft_max, span.token_count);
      const auto rejected = static_cast<std::int32_t>(
          random() % 3 == 0 ? static_cast<std::int64_t>(random()) % (most + 1) : 0);
      const std::int32_t accepted = span.token_count - std::max(0, rejected);
      ASSERT_TRUE(timeline.commit(span.ticket, accepted).is_ok());
      committed.insert(committed.end(), tokens.begin(), tokens.begin() + accepted);
      ASSERT_EQ(timeline.position(), static_cast<std::int64_t>(committed.size()));
    }
  }
}

TEST(Timeline, StretchesStagedTogetherLeaveWhatTheyLeaveOneAfterTheOther) {
  test::Random random;
  for (int round = 0; round < 200; ++round) {
    const TimelineOptions past{.lookback = 2,
                               .window = static_cast<std::int32_t>(random.between(1, 6)),
                               .draft_max = static_cast<std::int32_t>(random.between(0, 4))};
    Timeline alone(past);
    Timeline together(past);
    for (int pair = 0; pair < 10; ++pair) {
      const auto first = tokens_from(1, static_cast<std::size_t>(random.between(0, 12)));
      const auto second = tokens_from(20, static_cast<std::size_t>(random.between(0, 12)));
      for (const auto& tokens : {first, second}) {
        const StagedSpan span = alone.stage(tokens).value();
        ASSERT_TRUE(alone.commit(span.ticket, span.token_count).is_ok());
        ASSERT_TRUE(together.stage(tokens).is_ok());
      }
      together.commit_oldest();
      together.commit_oldest();
      ASSERT_EQ(together.position(), alone.position());
      ASSERT_EQ(together.staged_count(), 0U);
      const auto held = std::min<std::int64_t>(alone.position(), past.window);
      for (std::int32_t back = 1; back <= held; ++back) {
        ASSERT_EQ(together.ring_entry(back), alone.ring_entry(back));
      }
      const std::int64_t to = std::max<std::int64_t>(0, alone.position() - random.between(0, 10));
      ASSERT_EQ(together.rewind(to).is_ok(), alone.rewind(to).is_ok());
    }
  }
}

TEST(Timeline, RestoredStandsWhereItStood) {
  Timeline timeline(kPast);
  advance(timeline, 30);
  const auto recent = timeline.recent_tokens();
  ASSERT_EQ(recent.size(), 11U);
  Timeline restored(kPast);
  ASSERT_TRUE(restored.restore(timeline.position(), recent).is_ok());
  EXPECT_EQ(restored.position(), 30);
  EXPECT_TRUE(std::ranges::equal(restored.history(), timeline.history()));
  EXPECT_EQ(restored.ring_entry(1), kPast.window - 1);
  EXPECT_FALSE(restored.rewind(29).is_ok());
  EXPECT_FALSE(restored.restore(30, recent.first(5)).is_ok());
}

}  // namespace
}  // namespace ple
