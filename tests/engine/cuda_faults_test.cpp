// Every call of CUDA may fail: the failure is reported, nothing leaks, and what was refused works
// when it is asked for again.

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "support/device_decoder.hpp"
#include "support/fake_cuda.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kTokens = 14;

// Runs body again if it fails once.
void attempt(const std::function<void()>& body) {
  try {
    body();
  } catch (const pleiades::Error& error) {
    EXPECT_TRUE(error.status() == PLE_DEVICE_ERROR || error.status() == PLE_OUT_OF_MEMORY ||
                error.status() == PLE_WRONG_STATE)
        << error.what();
    body();
  }
}

// One batch; each phase may fail once.
void advance_carefully(DeviceDecoder& decoder, std::span<const DeviceDecoder::Part> parts) {
  attempt([&] { decoder.stage(parts); });
  bool is_first = true;
  attempt([&] {
    // A graph that waits has been given an empty batch instead.
    if (!std::exchange(is_first, false) && decoder.order() == Order::waiting_graph) {
      decoder.step().discard();
      decoder.stage(parts);
    }
    decoder.fill(parts);
    decoder.run_staged();
  });
  attempt([&] { decoder.step().commit(); });
  attempt([&] { decoder.drain(parts); });
}

// Opens an engine, decodes eagerly and by a graph, and goes on from a snapshot.
std::vector<float> run_through_everything(const SmallModel& model, Order order,
                                          ple_snapshot_kind kind) {
  std::optional<pleiades::Engine> engine;
  attempt([&] { engine.emplace(open_engine(model.model(), {.cache_bytes = 1500})); });
  std::optional<pleiades::Sequence> sequence;
  std::optional<pleiades::Sequence> other;
  attempt([&] { sequence.emplace(*engine); });
  attempt([&] { other.emplace(*engine); });
  std::optional<DeviceDecoder> eager;
  std::optional<DeviceDecoder> graph;
  attempt([&] { eager.emplace(*engine, 8, Order::eager); });
  // The probe of the graph's wait is one of the calls that fail.
  const bool can_wait = engine->info().graph_wait != 0;
  attempt([&] { graph.emplace(*engine, 4, can_wait ? order : Order::prepared_graph); });
  attempt([&] { graph->capture(*other); });
  Track track{.name = 3, .tokens = {}, .out = {}};
  for (std::size_t i = 0; i < kTokens; ++i) {
    track.tokens.push_back(static_cast<std::int32_t>(i * i % 90));
  }
  advance_carefully(*eager, std::vector<DeviceDecoder::Part>{{&*sequence, &track, 6}});
  advance_carefully(*graph, std::vector<DeviceDecoder::Part>{{&*sequence, &track, 2}});
  std::vector<std::byte> blob;
  attempt([&] { blob = sequence->snapshot(kind); });
  attempt([&] { other->restore(blob); });
  advance_carefully(*graph, std::vector<DeviceDecoder::Part>{{&*other, &track, 3}});
  advance_carefully(*eager, std::vector<DeviceDecoder::Part>{{&*other, &track, 3}});
  return track.out[0];
}

TEST(CudaFaults, EveryCallMayFailOnce) {
  const SmallModel model(11);
  const std::pair<Order, ple_snapshot_kind> variants[] = {
      {Order::prepared_graph, PLE_SNAPSHOT_COMPACT}, {Order::waiting_graph, PLE_SNAPSHOT_FULL}};
  for (const auto& [order, kind] : variants) {
    fail_cuda_call(-1);
    const std::vector<float> wanted = run_through_everything(model, order, kind);
    const std::int64_t calls = cuda_call_count();
    const std::int64_t allocations = cuda_allocation_count();
    ASSERT_GT(calls, 100);
    for (std::int64_t nth = 0; nth < calls; ++nth) {
      SCOPED_TRACE(nth);
      fail_cuda_call(nth);
      const std::vector<float> got = run_through_everything(model, order, kind);
      ASSERT_EQ(got.size(), wanted.size());
      ASSERT_EQ(std::memcmp(got.data(), wanted.data(), wanted.size() * sizeof(float)), 0);
      ASSERT_EQ(cuda_allocation_count(), allocations);
    }
    fail_cuda_call(-1);
  }
}

TEST(CudaFaults, GraphsDoNotWaitWhereALaunchReturnsAtItsEnd) {
  fail_cuda_call(-1);
  const SmallModel model(13);
  block_cuda_launches(true);
  auto engine = open_engine(model.model());
  EXPECT_EQ(engine.info().graph_wait, 0);
  pleiades::Sequence sequence(engine);
  DeviceDecoder decoder(engine, 4, Order::prepared_graph);
  decoder.capture(sequence);
  Track track{.name = 5, .tokens = {1, 2, 3}, .out = {}};
  decoder.run(std::vector<DeviceDecoder::Part>{{&sequence, &track, 3}});
  block_cuda_launches(false);
}

// The context of a device that nobody asked for would take hundreds of megabytes of it.
TEST(CudaFaults, AnEngineUsesItsOwnDeviceAlone) {
  fail_cuda_call(-1);
  const SmallModel model(12);
  {
    auto engine = pleiades::Engine::open(model.model(), {.device = "cuda:1", .cache_bytes = 1500});
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    Track track{.name = 4, .tokens = {1, 2, 3, 4, 5, 6, 7, 8}, .out = {}};
    advance(step, sequence, track, 5);
    const std::vector<std::byte> blob = sequence.snapshot(PLE_SNAPSHOT_COMPACT);
    pleiades::Sequence other(engine);
    other.restore(blob);
    advance(step, other, track, 3);
  }
  EXPECT_TRUE(cuda_device_was_used(1));
  EXPECT_FALSE(cuda_device_was_used(0));
}

}  // namespace
}  // namespace ple::test
