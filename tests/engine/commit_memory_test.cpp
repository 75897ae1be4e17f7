// Whatever memory is left, a commit succeeds, and a discard does what it must: neither takes any.

#include <gtest/gtest.h>

#include <vector>

#include "support/allocation_count.hpp"
#include "support/device_decoder.hpp"

namespace ple::test {
namespace {

using Parts = std::vector<DeviceDecoder::Part>;

// Calls it while every allocation fails.
template <class Call>
void without_memory(Call&& call) {
  struct NoMemory {
    NoMemory() { fail_allocation_after(0); }
    ~NoMemory() { fail_allocation_after(-1); }
  };
  const NoMemory no_memory;
  call();
}

std::vector<Track> make_tracks() {
  std::vector<Track> tracks;
  for (std::uint64_t name = 0; name < 3; ++name) {
    tracks.push_back({.name = name, .tokens = {}, .out = {}});
    for (std::int32_t i = 0; i < 20; ++i) {
      tracks.back().tokens.push_back((i * 31 + static_cast<std::int32_t>(name) * 7) % 90);
    }
  }
  return tracks;
}

class CommitMemory : public testing::TestWithParam<Order> {
 protected:
  static constexpr std::int32_t kCapacity = 9;

  CommitMemory() : engine_(open_engine(model_.model(), {.cache_bytes = 1500, .draft_max = 2})) {
    for (int i = 0; i < 3; ++i) sequences_.emplace_back(engine_);
  }

  // A decoder that has run nothing yet: its first batch finds no memory of an earlier one.
  DeviceDecoder make_decoder() {
    DeviceDecoder decoder(engine_, kCapacity, GetParam());
    if (GetParam() != Order::eager) decoder.capture(sequences_[0]);
    return decoder;
  }

  // All but the commit.
  static void run(DeviceDecoder& decoder, const Parts& parts) {
    decoder.stage(parts);
    decoder.fill(parts);
    decoder.run_staged();
  }

  Parts all(std::size_t token_count) {
    Parts parts;
    for (std::size_t i = 0; i < 3; ++i) parts.push_back({&sequences_[i], &tracks_[i], token_count});
    return parts;
  }

  void expect_positions(std::int64_t position) {
    for (const pleiades::Sequence& sequence : sequences_) {
      EXPECT_EQ(sequence.position(), position);
    }
  }

  SmallModel model_{17};
  pleiades::Engine engine_;
  std::vector<Track> tracks_ = make_tracks();
  std::vector<pleiades::Sequence> sequences_;
};

TEST_P(CommitMemory, ACommitNeedsNone) {
  DeviceDecoder decoder = make_decoder();
  run(decoder, all(3));
  without_memory([&] { decoder.step().commit(); });
  expect_positions(3);
  decoder.run(all(2));
  expect_positions(5);
}

TEST_P(CommitMemory, NorDoesOneOfAFewOfItsTokens) {
  DeviceDecoder decoder = make_decoder();
  const std::vector<std::int32_t> accepted{1, 1, 1};
  run(decoder, all(3));
  without_memory([&] { decoder.step().commit(accepted); });
  expect_positions(1);
}

TEST_P(CommitMemory, NorDoesOneBeforeAStagedStep) {
  DeviceDecoder first = make_decoder();
  DeviceDecoder second = make_decoder();
  run(first, all(3));
  std::vector<pleiades::Part> next;
  for (std::size_t i = 0; i < 3; ++i) {
    next.push_back({sequences_[i], std::span(tracks_[i].tokens).subspan(3, 2)});
  }
  second.step().stage(next);
  without_memory([&] { first.step().commit(); });
  expect_positions(3);
  second.fill(all(3));
  second.run_staged();
  without_memory([&] { second.step().commit(); });
  expect_positions(5);
}

TEST_P(CommitMemory, NorDoesOneOfABatchThatWasNotRun) {
  DeviceDecoder decoder = make_decoder();
  decoder.stage(all(0));
  decoder.run_staged();
  without_memory([&] { decoder.step().commit(); });
  decoder.stage(all(2));
  decoder.step().wait();
  without_memory([&] { decoder.step().commit(); });
  expect_positions(2);
}

// But for the launch that ends a graph's wait, which is the runtime's.
class DiscardMemory : public CommitMemory {};

TEST_P(DiscardMemory, ADiscardNeedsNone) {
  DeviceDecoder decoder = make_decoder();
  run(decoder, all(3));
  without_memory([&] { decoder.step().discard(); });
  expect_positions(0);
  decoder.run(all(3));
  expect_positions(3);
}

INSTANTIATE_TEST_SUITE_P(Orders, CommitMemory,
                         testing::Values(Order::eager, Order::prepared_graph,
                                         Order::waiting_graph));
INSTANTIATE_TEST_SUITE_P(Orders, DiscardMemory,
                         testing::Values(Order::eager, Order::prepared_graph));

}  // namespace
}  // namespace ple::test
