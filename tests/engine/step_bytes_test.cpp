// What a step takes of the device's memory for itself, at the released width.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "support/device_decoder.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

#if defined(PLE_FAKE_CUDA)
constexpr std::int32_t kTokens = 48;
#else
constexpr std::int32_t kTokens = 8192;
#endif
constexpr std::int64_t kBytesPerToken = 32 << 10;  // at most
constexpr std::int64_t kPage = 2 << 20;            // of the driver; each buffer may waste one
constexpr std::int64_t kBuffers = 4;
constexpr std::int32_t kLayer = 0;

std::int64_t free_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  return static_cast<std::int64_t>(free);
}

// As the refusal of a step that is too small says.
std::int64_t stated_bytes(pleiades::Engine& engine, std::int64_t token_count) {
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine, {.tokens_max = 1, .sequences_max = 1});
  try {
    step.stage(sequence, std::vector<std::int32_t>(static_cast<std::size_t>(token_count), 1));
  } catch (const pleiades::Error& error) {
    const std::string words = error.what();
    return std::stoll(words.substr(words.find("takes ") + 6));
  }
  return 0;
}

// A step of kTokens tokens, run once: what is allocated late counts as well.
pleiades::Step run_step(pleiades::Engine& engine, const DeviceBuffer& highway,
                        const CudaStream& stream) {
  pleiades::Step step(engine, {.tokens_max = kTokens, .sequences_max = 1});
  pleiades::Sequence sequence(engine);
  std::vector<std::int32_t> tokens;
  for (std::int32_t i = 0; i < kTokens; ++i) tokens.push_back(i * 31 % RandomModel::kVocab);
  step.stage(sequence, tokens);
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.element = PLE_BF16;
  args.input = highway.data();
  args.output = highway.data();
  args.stream = stream.get();
  step.run(kLayer, args);
  step.commit();
  require(stream.synchronize());
  return step;
}

TEST(StepBytes, AreFewerThan32KiBForAToken) {
  skip_without_device();
  if (IsSkipped()) return;
  const RandomModel model(
      {.hidden = 2560, .stream_count = 4, .heads_per_ngram = 8, .row_dim = 160, .layers = {kLayer}},
      5);
  for (const ple_arithmetic arithmetic :
       {PLE_ARITHMETIC_FLOAT32, PLE_ARITHMETIC_MIXED, PLE_ARITHMETIC_REFERENCE}) {
    auto engine = open_engine(
        model.model(), {.arithmetic = arithmetic, .arena = PLE_ARENA_CACHED, .cache_bytes = 0});
    const std::int64_t stated = stated_bytes(engine, kTokens);
    const CudaStream stream = require(CudaStream::create());
    const std::vector<std::uint16_t> ones(std::size_t{kTokens} * 4 * 2560, 0x3F80);
    const DeviceBuffer highway = require(DeviceBuffer::allocate(ones.size() * sizeof(ones[0])));
    require(copy_async(highway.data(), ones.data(), highway.bytes(), stream.get()));
    const pleiades::Step first = run_step(engine, highway, stream);  // which also loads the kernels
    // Of several, as other processes allocate and free as well.
    std::vector<std::int64_t> takes;
    for (int i = 0; i < 5; ++i) {
      const std::int64_t before = free_bytes();
      const pleiades::Step step = run_step(engine, highway, stream);
      takes.push_back(before - free_bytes());
    }
    std::sort(takes.begin(), takes.end());
    const std::int64_t taken = takes[takes.size() / 2];
    EXPECT_GT(taken, 0);
    EXPECT_LT(taken, kTokens * kBytesPerToken);
    EXPECT_LE(taken, stated + kBuffers * kPage);
    EXPECT_LT(stated, kTokens * kBytesPerToken);
  }
}

}  // namespace
}  // namespace ple::test
