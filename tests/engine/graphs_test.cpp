// Captured steps: a graph serves every batch up to its size, in both orders, and whatever fails
// leaves the step and its sequences as the contract says.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "support/device_decoder.hpp"
#include "support/random.hpp"
#include "support/temp_directory.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kTokens = 40;
constexpr std::int32_t kCapacity = 6;

class Graphs : public testing::Test {
 protected:
  void SetUp() override { skip_without_device(); }

  Track make_track(std::uint64_t name) {
    Track track{.name = name, .tokens = {}, .out = {}};
    for (std::size_t i = 0; i < kTokens; ++i) {
      track.tokens.push_back(static_cast<std::int32_t>(random_.between(0, 96)));
    }
    return track;
  }

  // What a track's output must be: one eager step over all of it.
  std::vector<float> expected(const Track& track) {
    auto engine = open_engine(model_.model());
    pleiades::Sequence sequence(engine);
    DeviceDecoder decoder(engine, kTokens, Order::eager);
    Track whole{.name = track.name, .tokens = track.tokens, .out = {}};
    decoder.run(std::vector<DeviceDecoder::Part>{{&sequence, &whole, kTokens}});
    return whole.out[0];
  }

  static void expect_same(const Track& got, const std::vector<float>& wanted) {
    ASSERT_EQ(got.out[0].size(), wanted.size());
    EXPECT_EQ(std::memcmp(got.out[0].data(), wanted.data(), wanted.size() * sizeof(float)), 0)
        << "track " << got.name;
  }

  // Random batches of up to kCapacity tokens until every track is at its end.
  void decode_all(pleiades::Engine& engine, DeviceDecoder& decoder) {
    std::vector<Track> tracks;
    std::vector<pleiades::Sequence> sequences;
    for (std::uint64_t name = 0; name < 5; ++name) {
      tracks.push_back(make_track(name));
      sequences.emplace_back(engine);
    }
    for (;;) {
      std::vector<DeviceDecoder::Part> parts;
      std::int64_t room = kCapacity;
      std::int64_t left_of_all = 0;
      for (std::size_t i = 0; i < tracks.size(); ++i) {
        const std::int64_t left = static_cast<std::int64_t>(kTokens) - sequences[i].position();
        left_of_all += left;
        const std::int64_t count = random_.between(0, std::min({left, room, std::int64_t{3}}));
        room -= count;
        if (count > 0 || random_.chance(0.2)) {
          parts.push_back({&sequences[i], &tracks[i], static_cast<std::size_t>(count)});
        }
      }
      if (left_of_all == 0) break;
      if (std::ssize(parts) <= kCapacity) decoder.run(parts);
    }
    for (const Track& track : tracks) expect_same(track, expected(track));
  }

  Random random_;
  SmallModel model_{random_.bits()};
};

TEST_F(Graphs, ServeEveryBatchUpToTheirSize) {
  for (const Order order : {Order::eager, Order::prepared_graph, Order::waiting_graph}) {
    for (const auto place : {PLE_SLOTS_DEVICE, PLE_SLOTS_PINNED}) {
      for (const std::uint64_t cache_bytes : {0, 2000, 1 << 20}) {
        auto engine =
            open_engine(model_.model(), {.slot_memory = place, .cache_bytes = cache_bytes});
        ASSERT_EQ(engine.info().graph_wait, 1);
        pleiades::Sequence sequence(engine);
        DeviceDecoder decoder(engine, kCapacity, order);
        if (order != Order::eager) decoder.capture(sequence);
        decode_all(engine, decoder);
      }
    }
  }
}

TEST_F(Graphs, ReplayOfAStagedBatchGivesItsResultAgain) {
  auto engine = open_engine(model_.model(), {.cache_bytes = 1000});
  pleiades::Sequence sequence(engine);
  Track track = make_track(7);
  const std::vector<float> wanted = expected(track);
  DeviceDecoder decoder(engine, kCapacity, Order::prepared_graph);
  decoder.capture(sequence);
  for (std::size_t at = 0; at < kTokens; at += 4) {
    const std::vector<DeviceDecoder::Part> parts = {{&sequence, &track, 4}};
    decoder.stage(parts);
    for (int again = 0; again < 3; ++again) {
      decoder.fill(parts);
      if (again == 1) {
        decoder.run_eagerly();
      } else {
        decoder.run_staged();
      }
    }
    decoder.step().commit();
    decoder.drain(parts);
  }
  expect_same(track, wanted);
}

TEST_F(Graphs, AFailedCaptureLeavesTheStepStaged) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  Track track = make_track(8);
  const std::vector<float> wanted = expected(track);
  DeviceDecoder decoder(engine, kTokens, Order::eager);
  const std::vector<DeviceDecoder::Part> parts = {{&sequence, &track, kTokens}};
  decoder.stage(parts);
  const Result<CudaGraph> broken = CudaGraph::capture(decoder.stream().get(), [&] {
    decoder.run_eagerly();
    return decoder.stream().synchronize();  // which no capture survives
  });
  EXPECT_FALSE(broken.is_ok());
  decoder.fill(parts);
  decoder.run_eagerly();
  decoder.step().commit();
  decoder.drain(parts);
  expect_same(track, wanted);
}

// Whether the call is refused with this code.
template <class Call>
bool is_refused(ple_status code, Call call) {
  try {
    call();
  } catch (const pleiades::Error& error) {
    EXPECT_EQ(error.status(), code) << error.what();
    return error.status() == code;
  }
  return false;
}

TEST_F(Graphs, WhatACaptureCannotHoldIsRefusedWithTheReason) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  DeviceDecoder decoder(engine, kCapacity, Order::eager);
  const DeviceBuffer ids = DeviceBuffer::allocate(sizeof(std::int32_t)).value();
  std::vector<float> pageable(DeviceDecoder::kWidth);
  ple_sequence* const handle = sequence.get();
  const std::int32_t one = 1;
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &handle;
  batch.token_counts = &one;
  batch.device_tokens = ids.as<std::int32_t>();
  batch.stream = decoder.stream().get();
  static_cast<void>(CudaGraph::capture(decoder.stream().get(), [&]() -> Status {
    EXPECT_TRUE(is_refused(PLE_WRONG_STATE, [&] { decoder.run_eagerly(); }));  // not staged
    EXPECT_EQ(ple_step_stage(decoder.step().get(), &batch), PLE_WRONG_STATE);
    decoder.step().stage(sequence, std::vector<std::int32_t>{1});
    ple_run_args args = decoder.args();
    args.input = pageable.data();
    EXPECT_TRUE(
        is_refused(PLE_INVALID_ARGUMENT, [&] { decoder.step().run(DeviceDecoder::kLayer, args); }));
    return {};
  }));
  decoder.step().discard();
}

TEST_F(Graphs, TokenIdsOnTheDeviceAreCopiedBack) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  Track track = make_track(9);
  const std::vector<float> wanted = expected(track);
  DeviceDecoder decoder(engine, kTokens, Order::eager);
  const DeviceBuffer ids = DeviceBuffer::allocate(kTokens * sizeof(std::int32_t)).value();
  ASSERT_TRUE(
      copy_async(ids.data(), track.tokens.data(), ids.bytes(), decoder.stream().get()).is_ok());
  ple_sequence* const handle = sequence.get();
  const auto count = static_cast<std::int32_t>(kTokens);
  ple_batch batch = PLE_BATCH_INIT;
  batch.sequence_count = 1;
  batch.sequences = &handle;
  batch.token_counts = &count;
  batch.device_tokens = ids.as<std::int32_t>();
  batch.stream = decoder.stream().get();
  ASSERT_EQ(ple_step_stage(decoder.step().get(), &batch), PLE_OK) << ple_last_error();
  const std::vector<DeviceDecoder::Part> parts = {{&sequence, &track, kTokens}};
  decoder.fill(parts);
  decoder.run_staged();
  decoder.step().commit();
  decoder.drain(parts);
  expect_same(track, wanted);
}

TEST_F(Graphs, SequencesOfSeveralStreamsAndEnginesStayApart) {
  auto first = open_engine(model_.model(), {.cache_bytes = 1500});
  auto second = open_engine(model_.model(), {.cache_bytes = 1500});
  std::vector<Track> tracks;
  std::vector<pleiades::Sequence> sequences;
  std::vector<DeviceDecoder> decoders;
  for (std::uint64_t name = 0; name < 4; ++name) {
    pleiades::Engine& engine = name % 2 == 0 ? first : second;
    tracks.push_back(make_track(name));
    sequences.emplace_back(engine);
    decoders.emplace_back(engine, kCapacity, Order::prepared_graph);
    decoders.back().capture(sequences.back());
  }
  for (std::size_t at = 0; at < kTokens; at += 2) {
    // All are launched before the first is read.
    for (std::size_t i = 0; i < decoders.size(); ++i) {
      const std::vector<DeviceDecoder::Part> parts = {{&sequences[i], &tracks[i], 2}};
      decoders[i].stage(parts);
      decoders[i].fill(parts);
      decoders[i].run_staged();
      decoders[i].step().commit();
    }
    for (std::size_t i = 0; i < decoders.size(); ++i) {
      decoders[i].drain(std::vector<DeviceDecoder::Part>{{&sequences[i], &tracks[i], 2}});
    }
  }
  for (const Track& track : tracks) expect_same(track, expected(track));
}

// A checkpoint whose table is cut off while an engine has it open.
TEST_F(Graphs, AFailedReadReleasesTheWaitAndFailsTheStep) {
  TempDirectory directory;
  const std::filesystem::path path = std::filesystem::path(directory.path()) / "tiny";
  std::filesystem::copy(std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny", path,
                        std::filesystem::copy_options::recursive);
  const pleiades::Model model = pleiades::Model::open(path.string());
  const ple_layer_info layer = model.layers().front();
  auto engine = open_engine(
      model, {.arena = PLE_ARENA_CACHED, .cache_bytes = 0, .layers = {layer.layer_index}});
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine, {.tokens_max = 4, .sequences_max = 4});
  const CudaStream stream = CudaStream::create().value();
  const auto elements = static_cast<std::size_t>(4 * layer.input_elements);
  const DeviceBuffer highway = DeviceBuffer::allocate(elements * sizeof(float)).value();
  std::vector<float> before(elements, 0.5F);
  ASSERT_TRUE(copy_async(highway.data(), before.data(), highway.bytes(), stream.get()).is_ok());
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.input = highway.data();
  args.output = highway.data();
  args.stream = stream.get();
  const std::vector<std::int32_t> tokens = {5, 6, 7, 8};
  step.stage(sequence, tokens);
  const CudaGraph graph = CudaGraph::capture(stream.get(), [&]() -> Status {
                            step.prepare(stream.get());
                            step.run(layer.layer_index, args);
                            return {};
                          }).value();
  step.discard();

  for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) {
    if (entry.path().extension() == ".safetensors")
      std::filesystem::resize_file(entry.path(), 4096);
  }
  step.stage(sequence, tokens);
  ASSERT_TRUE(graph.launch(stream.get()).is_ok());
  EXPECT_THROW(step.prepare(stream.get()), pleiades::Error);
  // The graph ends, and has touched nothing.
  std::vector<float> after(elements);
  ASSERT_TRUE(copy_async(after.data(), highway.data(), highway.bytes(), stream.get()).is_ok());
  ASSERT_TRUE(stream.synchronize().is_ok());
  EXPECT_EQ(after, before);
  EXPECT_THROW(step.commit(), pleiades::Error);
  step.discard();
  EXPECT_EQ(sequence.position(), 0);
}

TEST_F(Graphs, ADiscardedStepLetsTheGraphGoThatWaitsForIt) {
  auto engine = open_engine(model_.model(), {.cache_bytes = 1000});
  pleiades::Sequence sequence(engine);
  Track track = make_track(10);
  const std::vector<float> wanted = expected(track);
  DeviceDecoder decoder(engine, kCapacity, Order::waiting_graph);
  decoder.capture(sequence);
  for (std::size_t at = 0; at < kTokens; at += 4) {
    const std::vector<DeviceDecoder::Part> parts = {{&sequence, &track, 4}};
    decoder.stage(parts);
    decoder.fill(parts);
    const std::vector<float> before = decoder.read_highway();
    decoder.launch();
    decoder.step().discard();
    const std::vector<float> after = decoder.read_highway();
    EXPECT_EQ(std::memcmp(after.data(), before.data(), before.size() * sizeof(float)), 0);
    decoder.run(parts);
  }
  expect_same(track, wanted);
}

// Nobody tells the step that its graph was launched, nor on which stream.
TEST_F(Graphs, TheGraphOfADiscardedStepNeverSeesTheNextBatch) {
  auto engine = open_engine(model_.model(), {.cache_bytes = 1000});
  pleiades::Sequence sequence(engine);
  Track track = make_track(11);
  const std::vector<float> wanted = expected(track);
  DeviceDecoder decoder(engine, kCapacity, Order::waiting_graph);
  decoder.capture(sequence);
  std::vector<float> seen(static_cast<std::size_t>(kCapacity * DeviceDecoder::kWidth));
  const DeviceBuffer after = DeviceBuffer::allocate(seen.size() * sizeof(float)).value();
  for (std::size_t at = 0; at < kTokens; at += 4) {
    const std::vector<DeviceDecoder::Part> parts = {{&sequence, &track, 4}};
    decoder.stage(parts);
    decoder.fill(parts);
    const std::vector<float> before = decoder.read_highway();
    decoder.launch();
    require(copy_async(after.data(), decoder.args().input, after.bytes(), decoder.stream().get()));
    decoder.step().discard();
    decoder.run(parts);
    require(copy_async(seen.data(), after.data(), after.bytes(), decoder.stream().get()));
    require(decoder.stream().synchronize());
    EXPECT_EQ(std::memcmp(seen.data(), before.data(), after.bytes()), 0) << "at token " << at;
  }
  expect_same(track, wanted);
}

// The device passes what the snapshot waits for only after this thread has staged more and prepared
// the graph that waits.
TEST_F(Graphs, AStepIsStagedWhileASnapshotWaitsForTheDevice) {
  auto engine = open_engine(model_.model());
  std::vector<Track> tracks;
  std::vector<pleiades::Sequence> sequences;
  for (std::uint64_t name = 0; name < 3; ++name) {
    tracks.push_back(make_track(name));
    sequences.emplace_back(engine);
  }
  DeviceDecoder waiting(engine, 1, Order::waiting_graph);
  waiting.capture(sequences[0]);
  DeviceDecoder eager(engine, 1, Order::eager);
  pleiades::Step more(engine);
  const std::vector<DeviceDecoder::Part> first = {{&sequences[0], &tracks[0], 1}};
  waiting.stage(first);
  waiting.fill(first);
  waiting.launch();
  const std::vector<DeviceDecoder::Part> second = {{&sequences[1], &tracks[1], 1}};
  eager.stage(second);
  eager.fill(second);
  ASSERT_TRUE(eager.stream().synchronize().is_ok());
  ple_run_args args = eager.args();
  args.stream = waiting.stream().get();  // behind the graph
  eager.step().run(DeviceDecoder::kLayer, args);
  eager.step().commit();

  std::atomic<bool> is_saving{false};
  std::thread saving([&] {
    is_saving = true;
    EXPECT_FALSE(sequences[1].snapshot(PLE_SNAPSHOT_FULL).empty());
  });
  while (!is_saving) std::this_thread::yield();
  for (int i = 0; i < 2000; ++i) {
    more.stage(sequences[2], std::vector<std::int32_t>{1});
    more.discard();
  }
  waiting.step().prepare(waiting.stream().get());
  waiting.step().commit();
  saving.join();
}

TEST_F(Graphs, MemoryThatTheKernelsCannotReadAtOnceIsRefused) {
  auto engine = open_engine(model_.model());
  pleiades::Sequence sequence(engine);
  DeviceDecoder decoder(engine, 2, Order::eager);
  decoder.step().stage(sequence, std::vector<std::int32_t>{1});
  ple_run_args args = decoder.args();
  args.input = static_cast<const float*>(args.input) + 1;
  EXPECT_TRUE(
      is_refused(PLE_INVALID_ARGUMENT, [&] { decoder.step().run(DeviceDecoder::kLayer, args); }));
  args = decoder.args();
  args.output = static_cast<float*>(args.output) + 2;
  EXPECT_TRUE(
      is_refused(PLE_INVALID_ARGUMENT, [&] { decoder.step().run(DeviceDecoder::kLayer, args); }));
  decoder.step().discard();
}

}  // namespace
}  // namespace ple::test
