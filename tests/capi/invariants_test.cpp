// The invariants of specification E that concern a step, through the public interface: the output
// bits of a sequence depend on its tokens and highway alone.

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "support/random.hpp"
#include "support/same_bits.hpp"
#include "support/small_model.hpp"
#include "support/test_device.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kTokens = 70;

class Invariants : public testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }

  std::vector<std::int32_t> random_tokens(std::size_t count) {
    std::vector<std::int32_t> tokens(count);
    for (std::int32_t& token : tokens) {
      token = random_.chance(0.1) ? SmallModel::kEos
                                  : static_cast<std::int32_t>(random_.between(0, 96));
    }
    return tokens;
  }

  Track make_track(std::uint64_t name, std::size_t count = kTokens) {
    return {.name = name, .tokens = random_tokens(count), .out = {}};
  }

  // What a track's outputs must be: one step over all of it, resident.
  Track expected(const Track& track, ple_arithmetic arithmetic = PLE_ARITHMETIC_FLOAT32) {
    auto engine = open_engine(model_.model(), {.arithmetic = arithmetic});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    Track whole{.name = track.name, .tokens = track.tokens, .out = {}};
    advance(step, sequence, whole, whole.tokens.size());
    return whole;
  }

  static void expect_same(const Track& got, const Track& wanted) {
    for (std::size_t layer = 0; layer < 2; ++layer) {
      ASSERT_LE(got.out[layer].size(), wanted.out[layer].size());
      const std::span<const float> out(got.out[layer]);
      EXPECT_TRUE(same_bits(out, std::span(wanted.out[layer]).first(out.size())))
          << "layer " << layer << " of track " << got.name;
    }
  }

  Random random_;
  SmallModel model_{random_.bits()};
};

TEST_F(Invariants, E1ChunkedPrefillIsOneShotIsTokenByToken) {
  for (const auto arithmetic :
       {PLE_ARITHMETIC_FLOAT32, PLE_ARITHMETIC_MIXED, PLE_ARITHMETIC_REFERENCE}) {
    const Track track = make_track(1);
    const Track whole = expected(track, arithmetic);
    auto engine = open_engine(model_.model(), {.arithmetic = arithmetic});
    for (const std::size_t chunk : {1, 2, 3, 7, 8, 9, 10, 64}) {
      pleiades::Sequence sequence(engine);
      pleiades::Step step(engine);
      Track chunked{.name = 1, .tokens = track.tokens, .out = {}};
      for (std::size_t at = 0; at < kTokens; at += chunk) {
        advance(step, sequence, chunked, std::min(chunk, kTokens - at));
      }
      expect_same(chunked, whole);
    }
  }
}

TEST_F(Invariants, E1RandomSplitsThreadsAndCachesGiveTheSameBits) {
  const Track track = make_track(2);
  const Track whole = expected(track);
  for (int round = 0; round < 30; ++round) {
    auto engine = open_engine(model_.model(),
                              {.arena = random_.chance(0.5) ? PLE_ARENA_CACHED : PLE_ARENA_AUTO,
                               .cache_bytes = static_cast<std::uint64_t>(random_.between(0, 4000)),
                               .thread_count = static_cast<std::int32_t>(random_.between(1, 4))});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    Track split{.name = 2, .tokens = track.tokens, .out = {}};
    for (std::size_t at = 0; at < kTokens;) {
      const auto count = static_cast<std::size_t>(
          random_.between(0, static_cast<std::int64_t>(std::min<std::size_t>(kTokens - at, 20))));
      advance(step, sequence, split, count);
      at += count;
    }
    expect_same(split, whole);
  }
}

TEST_F(Invariants, E7SnapshotRestoreContinuesAsIfNeverStopped) {
  const Track track = make_track(3);
  const Track whole = expected(track);
  for (const ple_snapshot_kind kind : {PLE_SNAPSHOT_COMPACT, PLE_SNAPSHOT_FULL}) {
    for (const std::size_t stop : {0, 1, 2, 5, 9, 10, 33, 69}) {
      auto engine = open_engine(model_.model(), {.cache_bytes = 0});
      auto other_engine = open_engine(model_.model());
      pleiades::Sequence sequence(engine);
      pleiades::Step step(engine);
      Track first{.name = 3, .tokens = track.tokens, .out = {}};
      if (stop > 0) advance(step, sequence, first, stop);
      const auto blob = sequence.snapshot(kind);

      pleiades::Sequence restored(other_engine);
      pleiades::Step other_step(other_engine);
      Track noise = make_track(99);
      advance(other_step, restored, noise, 20);  // a recycled sequence
      restored.restore(blob);
      restored.restore(blob);  // twice is once
      EXPECT_EQ(restored.position(), static_cast<std::int64_t>(stop));
      EXPECT_EQ(restored.snapshot(kind), blob);
      Track second = first;
      while (restored.position() < static_cast<std::int64_t>(kTokens)) {
        advance(other_step, restored, second,
                std::min<std::size_t>(4, kTokens - static_cast<std::size_t>(restored.position())));
      }
      expect_same(second, whole);
      // The first sequence is independent of all that.
      advance(step, sequence, first, kTokens - stop);
      expect_same(first, whole);
    }
  }
}

TEST_F(Invariants, E8DraftsAcceptedInPartEqualRunningTheAcceptedAlone) {
  const Track track = make_track(4);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model(), {.draft_max = 5});
  for (int round = 0; round < 30; ++round) {
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    Track drafted{.name = 4, .tokens = track.tokens, .out = {}};
    while (sequence.position() < static_cast<std::int64_t>(kTokens) - 6) {
      const std::int64_t position = sequence.position();
      const auto count = static_cast<std::size_t>(random_.between(1, 6));
      const auto accepted =
          static_cast<std::size_t>(random_.between(1, static_cast<std::int64_t>(count)));
      // Right tokens as far as they will be accepted, wrong drafts behind.
      auto drafts = random_tokens(count);
      std::copy_n(track.tokens.begin() + position, accepted, drafts.begin());
      step.stage(sequence, drafts);
      Track* const tracks[] = {&drafted};
      run_tracks(step, tracks, {{position}}, {{count}}, {{accepted}});
      step.commit({{static_cast<std::int32_t>(accepted)}});
    }
    expect_same(drafted, whole);
  }
}

TEST_F(Invariants, RewoundSequencesContinueWithTheSameBits) {
  const Track track = make_track(5);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model(), {.draft_max = 4});
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  Track rewound{.name = 5, .tokens = track.tokens, .out = {}};
  for (int round = 0; round < 200; ++round) {
    const std::int64_t position = sequence.position();
    const std::int64_t left = static_cast<std::int64_t>(kTokens) - position;
    advance(step, sequence, rewound,
            static_cast<std::size_t>(random_.between(0, std::min<std::int64_t>(left, 12))));
    expect_same(rewound, whole);
    if (random_.chance(0.5)) {
      sequence.rewind(std::max<std::int64_t>(0, sequence.position() - random_.between(0, 4)));
    }
    if (random_.chance(0.05)) sequence.rewind(0);
  }
}

TEST_F(Invariants, E9CompanyInABatchChangesNothing) {
  auto engine = open_engine(model_.model(), {.arena = PLE_ARENA_CACHED, .cache_bytes = 2000});
  std::vector<Track> tracks;
  std::vector<Track> wanted;
  std::vector<pleiades::Sequence> sequences;
  for (std::uint64_t name = 0; name < 5; ++name) {
    tracks.push_back(make_track(name));
    wanted.push_back(expected(tracks.back()));
    sequences.emplace_back(engine);
  }
  pleiades::Step step(engine);
  for (int round = 0; round < 60; ++round) {
    std::vector<std::size_t> order(tracks.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_.engine());
    order.resize(static_cast<std::size_t>(random_.between(1, 5)));
    std::vector<pleiades::Part> parts;
    std::vector<Track*> members;
    std::vector<std::int64_t> positions;
    std::vector<std::size_t> counts;
    for (const std::size_t i : order) {
      const std::int64_t position = sequences[i].position();
      const std::int64_t left = static_cast<std::int64_t>(kTokens) - position;
      const auto count =
          static_cast<std::size_t>(random_.between(0, std::min<std::int64_t>(left, 9)));
      parts.push_back(
          {sequences[i],
           std::span(tracks[i].tokens).subspan(static_cast<std::size_t>(position), count)});
      members.push_back(&tracks[i]);
      positions.push_back(position);
      counts.push_back(count);
    }
    step.stage(parts);
    run_tracks(step, members, positions, counts, counts);
    step.commit();
  }
  for (std::size_t i = 0; i < tracks.size(); ++i) expect_same(tracks[i], wanted[i]);
}

TEST_F(Invariants, E11AnEmptyBatchLeavesEverythingAsItIs) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  Track track = make_track(6);
  advance(step, sequence, track, 12);
  const auto before = sequence.snapshot(PLE_SNAPSHOT_FULL);
  step.stage(sequence, {});
  step.commit();
  step.stage(std::span<const pleiades::Part>{});
  step.commit();
  EXPECT_EQ(sequence.snapshot(PLE_SNAPSHOT_FULL), before);
}

TEST_F(Invariants, E18ARecycledSequenceStartsFresh) {
  const Track track = make_track(7);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  Track noise = make_track(8);
  advance(step, sequence, noise, 50);
  sequence.rewind(0);
  Track again{.name = 7, .tokens = track.tokens, .out = {}};
  advance(step, sequence, again, 3);
  advance(step, sequence, again, kTokens - 3);
  expect_same(again, whole);
}

TEST_F(Invariants, AStagedStepCanRunAgainAndBeDiscarded) {
  const Track track = make_track(9);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model(), {.draft_max = 2});
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  Track done{.name = 9, .tokens = track.tokens, .out = {}};
  advance(step, sequence, done, 15);
  for (const std::size_t count : {1, 3, 10, 40}) {
    const auto wrong = random_tokens(count);
    step.stage(sequence, wrong);
    Track scratch = done;
    Track* const tracks[] = {&scratch};
    const std::int64_t position = sequence.position();
    run_tracks(step, tracks, {{position}}, {{count}}, {{count}});
    const Track once = scratch;
    run_tracks(step, tracks, {{position}}, {{count}}, {{count}});
    expect_same(scratch, once);
    step.discard();
    step.discard();
  }
  advance(step, sequence, done, kTokens - 15);
  expect_same(done, whole);
}

TEST_F(Invariants, BytesThatAreNotTheRowsAreNotDecoded) {
  const ple_layer_info layer = model_.model().layers().front();
  const std::vector<std::byte> bytes(static_cast<std::size_t>(2 * layer.row_bytes));
  std::vector<float> values(static_cast<std::size_t>(3 * layer.row_dim));
  model_.model().decode_rows(layer.layer_index, bytes, 2, values.data());
  for (const std::int64_t count : {-1, 0, 1, 3}) {
    EXPECT_THROW(model_.model().decode_rows(layer.layer_index, bytes, count, values.data()),
                 pleiades::Error);
  }
}

// A stage that is refused leaves the staged batch, also to what counts its sequences.
TEST_F(Invariants, ARefusedStageLeavesTheStagedBatch) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  pleiades::Sequence other(engine);
  pleiades::Step step(engine);
  const std::vector<std::int32_t> tokens = random_tokens(3);
  step.stage(sequence, tokens);
  EXPECT_THROW(step.stage({{sequence, tokens}, {other, tokens}}), pleiades::Error);
  EXPECT_EQ(step.token_count(), 3);
  EXPECT_THROW(step.commit(std::vector<std::int32_t>{3, 3}), pleiades::Error);
  step.commit(std::vector<std::int32_t>{3});
  EXPECT_EQ(sequence.position(), 3);
}

// Also more than any step could be made for, of which no bytes are told.
TEST_F(Invariants, AnyNumberOfTokensTooManyIsRefused) {
  auto engine = open_engine(model_.model());
  const pleiades::Sequence one(engine);
  const pleiades::Sequence other(engine);
  pleiades::Step step(engine);
  ple_sequence* const sequences[] = {one.get(), other.get()};
  const std::int32_t token = 1;
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto refusal = [&](std::int32_t count, std::int32_t other_count) {
    const std::int32_t counts[] = {count, other_count};
    ple_batch batch = PLE_BATCH_INIT;
    batch.sequence_count = 2;
    batch.sequences = sequences;
    batch.token_counts = counts;
    batch.tokens = &token;  // not read
    EXPECT_EQ(ple_step_stage(step.get(), &batch), PLE_INVALID_ARGUMENT);
    return std::string(ple_last_error());
  };
  EXPECT_TRUE(refusal(500, 13).starts_with("513 tokens in a step made for 512: a step for them "));
  EXPECT_EQ(refusal(kMost, 1),
            "2147483648 tokens in a step made for 512: no step takes more than 2147483647");
  EXPECT_EQ(refusal(kMost, kMost),
            "4294967294 tokens in a step made for 512: no step takes more than 2147483647");
}

TEST_F(Invariants, TwoStepsInFlightGiveTheSameBits) {
  const Track track = make_track(10);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model(), {.cache_bytes = 1000});
  pleiades::Sequence sequence(engine);
  pleiades::Step steps[2] = {pleiades::Step(engine), pleiades::Step(engine)};
  Track piped{.name = 10, .tokens = track.tokens, .out = {}};
  constexpr std::size_t kChunk = 10;
  steps[0].stage(sequence, std::span(track.tokens).first(kChunk));
  for (std::size_t at = 0; at < kTokens; at += kChunk) {
    pleiades::Step& step = steps[at / kChunk % 2];
    if (at + kChunk < kTokens) {
      steps[1 - at / kChunk % 2].stage(sequence,
                                       std::span(track.tokens).subspan(at + kChunk, kChunk));
    }
    Track* const tracks[] = {&piped};
    run_tracks(step, tracks, {{static_cast<std::int64_t>(at)}}, {{kChunk}}, {{kChunk}});
    step.commit();
  }
  expect_same(piped, whole);
}

TEST_F(Invariants, AnnouncedTokensChangeNoBit) {
  const Track track = make_track(11);
  const Track whole = expected(track);
  auto engine = open_engine(model_.model(), {.arena = PLE_ARENA_CACHED, .cache_bytes = 3000});
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  Track announced{.name = 11, .tokens = track.tokens, .out = {}};
  for (std::size_t at = 0; at < kTokens; at += 7) {
    sequence.announce(random_tokens(30));
    advance(step, sequence, announced, std::min<std::size_t>(7, kTokens - at));
  }
  expect_same(announced, whole);
}

TEST_F(Invariants, TwoEnginesAndSeveralThreadsDoNotDisturbEachOther) {
  auto shared = open_engine(model_.model(), {.arena = PLE_ARENA_CACHED, .cache_bytes = 1500});
  std::vector<Track> tracks;
  std::vector<Track> wanted;
  for (std::uint64_t name = 0; name < 4; ++name) {
    tracks.push_back(make_track(name));
    wanted.push_back(expected(tracks.back()));
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    threads.emplace_back([&, i] {
      auto own = open_engine(model_.model(), {.cache_bytes = 0});
      pleiades::Engine& engine = i % 2 == 0 ? shared : own;
      pleiades::Sequence sequence(engine);
      pleiades::Step step(engine);
      for (std::size_t at = 0; at < kTokens; at += 5) advance(step, sequence, tracks[i], 5);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < tracks.size(); ++i) expect_same(tracks[i], wanted[i]);
}

}  // namespace
}  // namespace ple::test
