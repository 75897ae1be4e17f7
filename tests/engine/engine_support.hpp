#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "engine/engine.hpp"
#include "engine/sequence.hpp"
#include "engine/step.hpp"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ple::test {

inline constexpr std::int32_t kTokensMax = 16;  // of a step

// An engine over the tiny golden checkpoint, whose rows lie in files.
inline std::shared_ptr<Engine> open_engine(const EngineOptions& options) {
  Result<ModelSpec> model = open_checkpoint(std::string(PLE_TEST_DATA) + "/golden/qwen4_exp/tiny");
  EXPECT_TRUE(model.is_ok()) << model.status().message();
  auto engine = Engine::open(std::make_shared<const ModelSpec>(std::move(model).value()), options);
  EXPECT_TRUE(engine.is_ok()) << engine.status().message();
  return std::move(engine).value();
}

inline std::size_t leases_of(const Engine& engine) {
  std::size_t count = 0;
  for (const EngineLayer& layer : engine.layers()) count += layer.cache->leases_outstanding();
  return count;
}

// A sequence, a step of its own and the bits that came out so far.
class Stream {
 public:
  explicit Stream(const std::shared_ptr<Engine>& engine)
      : engine_(*engine),
        sequence_(std::move(Sequence::create(engine)).value()),
        step_(std::move(Step::create(engine, kTokensMax, 1)).value()) {}

  Step& step() { return *step_; }
  const std::vector<float>& outputs() const { return outputs_; }

  Status stage(std::span<const TokenId> tokens) {
    token_count_ = static_cast<std::int32_t>(tokens.size());
    return step_->stage({.sequences = {&sequence_, 1},
                         .token_counts = {&token_count_, 1},
                         .tokens = tokens,
                         .positions = {}});
  }

  // Runs the staged tokens through every layer.
  Status run() {
    highway_.clear();
    for (const EngineLayer& layer : engine_.layers()) {
      const auto elements = static_cast<std::size_t>(layer.layer->traits().input_elements);
      const std::size_t begin = highway_.size();
      highway_.resize(begin + elements * static_cast<std::size_t>(token_count_));
      for (std::size_t i = begin; i < highway_.size(); ++i) {
        highway_[i] = static_cast<float>(i % 31) / 16 - 1;
      }
      float* const part = highway_.data() + begin;
      PLE_TRY(step_->run(layer.spec->layer_index, {.input = part, .output = part}));
    }
    return {};
  }

  // Runs and commits.
  Status finish() {
    PLE_TRY(run());
    PLE_TRY(step_->commit({}));
    outputs_.insert(outputs_.end(), highway_.begin(), highway_.end());
    return {};
  }

 private:
  Engine& engine_;
  std::shared_ptr<Sequence> sequence_;
  std::unique_ptr<Step> step_;
  std::int32_t token_count_ = 0;
  std::vector<float> highway_;  // of the last run, layer by layer
  std::vector<float> outputs_;
};

inline void expect_ok(const Status& status) { EXPECT_TRUE(status.is_ok()) << status.message(); }

// The outputs of a stream that takes the stretches of tokens one after the other, undisturbed.
inline std::vector<float> undisturbed(std::span<const std::vector<TokenId>> stretches) {
  Stream stream(open_engine({.cache_bytes = 1 << 20}));
  for (const std::vector<TokenId>& tokens : stretches) {
    expect_ok(stream.stage(tokens));
    expect_ok(stream.finish());
  }
  return stream.outputs();
}

}  // namespace ple::test
