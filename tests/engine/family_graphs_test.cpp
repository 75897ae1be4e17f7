// Captured steps of every family but qwen4_exp (graphs_test.cpp has that one): a graph serves every
// batch up to its size, with the bits of an eager step.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "support/device_decoder.hpp"
#include "support/family_layer.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

constexpr std::size_t kTokens = 30;
constexpr std::int32_t kCapacity = 6;

// One sequence's text and input, and its outputs from one eager step.
struct Timeline {
  std::vector<std::int32_t> tokens;
  std::vector<float> input;
  std::vector<float> expected;
};

class FamilyGraphs : public testing::TestWithParam<FamilyCase> {
 protected:
  void SetUp() override { skip_without_device(); }

  Timeline make_timeline() {
    Timeline timeline;
    for (std::size_t i = 0; i < kTokens; ++i) {
      const std::int64_t last = layer_.model().info().vocab_size - 1;
      timeline.tokens.push_back(static_cast<std::int32_t>(random_.between(0, last)));
    }
    for (std::size_t i = 0; i < kTokens * in_; ++i) {
      timeline.input.push_back(static_cast<float>(random_.between(-999, 999)) * 0.001F);
    }
    auto engine = open_engine(layer_.model());
    pleiades::Sequence sequence(engine);
    pleiades::Step step(engine);
    step.stage(sequence, timeline.tokens);
    timeline.expected =
        run_staged(step, layer_.info(), timeline.input, kTokens, PLE_F32, PLE_OUTPUT_DELTA);
    return timeline;
  }

  ple_run_args args(const DeviceBuffer& input, const DeviceBuffer& output,
                    const CudaStream& stream) const {
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.mode = PLE_OUTPUT_DELTA;
    args.input = in_ > 0 ? input.data() : nullptr;
    args.output = output.data();
    args.stream = stream.get();
    return args;
  }

  Random random_;
  const FamilyLayer layer_{GetParam()};
  const std::size_t in_ = static_cast<std::size_t>(layer_.info().input_elements);
  const std::size_t out_ = static_cast<std::size_t>(layer_.info().output_elements);
};

TEST_P(FamilyGraphs, ServeEveryBatchUpToTheirSize) {
  const Timeline timelines[2] = {make_timeline(), make_timeline()};
  auto engine = open_engine(layer_.model(), {.cache_bytes = 0});
  pleiades::Sequence sequences[2] = {pleiades::Sequence(engine), pleiades::Sequence(engine)};
  pleiades::Step step(engine, {.tokens_max = kCapacity, .sequences_max = 2});
  const CudaStream stream = require(CudaStream::create());
  const DeviceBuffer input = require(DeviceBuffer::allocate((kCapacity * in_ + 1) * sizeof(float)));
  const DeviceBuffer output = require(DeviceBuffer::allocate(kCapacity * out_ * sizeof(float)));

  step.stage(sequences[0], std::vector<std::int32_t>{1});
  const CudaGraph graph = require(CudaGraph::capture(stream.get(), [&]() -> Status {
    step.run(layer_.info().layer_index, args(input, output, stream));
    return {};
  }));
  step.discard();

  while (sequences[0].position() + sequences[1].position() < std::int64_t{2 * kTokens}) {
    std::vector<pleiades::Part> parts;
    std::vector<float> values;
    std::vector<float> wanted;
    for (std::size_t s = 0; s < 2; ++s) {
      const auto begin = static_cast<std::size_t>(sequences[s].position());
      const auto count = static_cast<std::size_t>(random_.between(
          0, std::min<std::int64_t>(kCapacity / 2, static_cast<std::int64_t>(kTokens - begin))));
      parts.push_back({sequences[s], std::span(timelines[s].tokens).subspan(begin, count)});
      const auto in = std::span(timelines[s].input).subspan(begin * in_, count * in_);
      const auto out = std::span(timelines[s].expected).subspan(begin * out_, count * out_);
      values.insert(values.end(), in.begin(), in.end());
      wanted.insert(wanted.end(), out.begin(), out.end());
    }
    step.stage(parts);
    values.resize(kCapacity * in_ + 1, NAN);
    require(copy_async(input.data(), values.data(), input.bytes(), stream.get()));
    step.prepare(stream.get());
    require(graph.launch(stream.get()));
    step.commit();
    std::vector<float> got(kCapacity * out_);
    require(copy_async(got.data(), output.data(), output.bytes(), stream.get()));
    require(stream.synchronize());
    ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(), got.begin()));
  }
}

INSTANTIATE_TEST_SUITE_P(All, FamilyGraphs, testing::ValuesIn(kFamilyCases));

}  // namespace
}  // namespace ple::test
