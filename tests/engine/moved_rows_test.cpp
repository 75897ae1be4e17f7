// A captured run finds a batch's rows where they are at last, not where they were when it was
// staged.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <future>
#include <memory>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "engine/step.hpp"
#include "support/device_decoder.hpp"
#include "support/faulty_queue.hpp"

namespace ple::test {
namespace {

class MovedRows : public testing::Test {
 protected:
  static constexpr std::int32_t kTokens = 5;

  void SetUp() override { skip_without_device(); }

  // Over the tiny golden checkpoint, whose rows lie in files.
  static std::shared_ptr<Engine> open(FaultPlan& faults) {
    EngineOptions options{.device = "cuda", .arena = Arena::cached, .cache_bytes = 1 << 20};
    options.reader.wrap_queue = faults.wrap();
    auto model = require(open_checkpoint(std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny"));
    return require(Engine::open(std::make_shared<const ModelSpec>(std::move(model)), options));
  }

  static std::unique_ptr<Step> make_step(const std::shared_ptr<Engine>& engine) {
    return require(Step::create(engine, kTokens, 1));
  }

  static void stage(Step& step, const std::shared_ptr<Sequence>& sequence) {
    const std::vector<TokenId> tokens = {1, 2, 3, 4, 5};
    require(step.stage({.sequences = {&sequence, 1},
                        .token_counts = {&kTokens, 1},
                        .tokens = tokens,
                        .positions = {}}));
  }

  // What the first layer makes of a highway of ones, once enqueued.
  template <class Enqueue>
  std::vector<float> output_of(Engine& engine, Enqueue enqueue) {
    const EngineLayer& layer = engine.layers()[0];
    const auto elements = static_cast<std::size_t>(kTokens * layer.layer->traits().input_elements);
    std::vector<float> values(elements, 1.0F);
    const DeviceBuffer highway = require(DeviceBuffer::allocate(elements * sizeof(float)));
    require(copy_async(highway.data(), values.data(), highway.bytes(), stream_.get()));
    enqueue(layer.spec->layer_index,
            StepRun{.input = highway.data(), .output = highway.data(), .stream = stream_.get()});
    require(copy_async(values.data(), highway.data(), highway.bytes(), stream_.get()));
    require(stream_.synchronize());
    return values;
  }

  CudaStream stream_ = require(CudaStream::create());
};

TEST_F(MovedRows, AreFoundByAGraphThatWasStagedBefore) {
  FaultPlan no_faults;
  const auto calm = open(no_faults);
  const auto alone = make_step(calm);
  stage(*alone, require(Sequence::create(calm)));
  const std::vector<float> wanted = output_of(*calm, [&](std::int32_t layer, const StepRun& run) {
    require(alone->run(layer, run));
    require(alone->commit({}));
  });

  FaultPlan faults;
  const auto engine = open(faults);
  const auto first = make_step(engine);
  const auto second = make_step(engine);
  const auto one = require(Sequence::create(engine));
  const auto other = require(Sequence::create(engine));
  std::promise<void> both_are_staged;
  std::atomic<bool> is_failing = true;
  const std::vector<float> got = output_of(*engine, [&](std::int32_t layer, const StepRun& run) {
    require(second->stage({}));
    const CudaGraph graph =
        require(CudaGraph::capture(stream_.get(), [&] { return second->run(layer, run); }));
    second->discard();
    faults.set_rule([&, staged = both_are_staged.get_future().share()](const ReadOperation&) {
      staged.wait();
      return is_failing ? Fault::fail(EIO) : Fault::none();
    });
    stage(*first, one);
    stage(*second, other);  // its rows are on their way for the first
    both_are_staged.set_value();
    EXPECT_EQ(first->wait().code(), StatusCode::io_error);
    is_failing = false;
    require(second->prepare(stream_.get()));
    require(graph.launch(stream_.get()));
    require(second->commit({}));
  });
  EXPECT_EQ(got, wanted);
  EXPECT_EQ(other->timeline().position(), kTokens);
  EXPECT_EQ(one->timeline().position(), 0);
}

}  // namespace
}  // namespace ple::test
