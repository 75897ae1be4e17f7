// A cache of four sets, graphs of two sequences that replay again and again, and a third sequence
// whose rows are not numbers and go into every slot that is free: a slot that was overwritten too
// early would show.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "support/device_decoder.hpp"
#include "support/random.hpp"

namespace ple::test {
namespace {

#if defined(PLE_FAKE_CUDA)
constexpr int kSteps = 3000;
#else
constexpr int kSteps = 100'000;
#endif
constexpr std::size_t kPeriod = 12;  // longer than what an output depends on
constexpr std::size_t kWidth = DeviceDecoder::kWidth;
constexpr std::size_t kHistory = 8;  // steps between two looks at the outputs

// Tokens of the good sequences are 1, 2 and 3.
std::int32_t good_token(std::size_t name, std::size_t position) {
  return static_cast<std::int32_t>((position % kPeriod * (2 + name) + position % kPeriod / 5) % 3) +
         1;
}

// Rows that no three good tokens need are not numbers.
void poison(SmallModel& model) {
  std::vector<std::int32_t> tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back(i * i % 1009 % 7 % 3 + 1);
  for (std::size_t name = 0; name < 2; ++name) {
    for (std::size_t i = 0; i < 4 * kPeriod; ++i) tokens.push_back(good_token(name, i));
  }
  std::vector<bool> is_good(SmallModel::kRowCounts[0], false);
  const auto take = [&](std::span<const std::int32_t> from) {
    std::vector<std::uint32_t> ids(from.size() * SmallModel::kColumns);
    model.model().row_ids(SmallModel::kLayers[0], from, ids.data());
    for (const std::uint32_t row : ids) {
      if (row < is_good.size()) is_good[row] = true;
    }
  };
  take(tokens);
  for (std::size_t name = 0; name < 2; ++name) {
    std::vector<std::int32_t> start;
    for (std::size_t i = 0; i < 4 * kPeriod; ++i) start.push_back(good_token(name, i));
    take(start);
  }
  auto& rows = model.rows(0);
  for (std::size_t row = 0; row < is_good.size(); ++row) {
    if (is_good[row]) continue;
    std::fill_n(rows.begin() + static_cast<std::ptrdiff_t>(row * SmallModel::kRowDim),
                SmallModel::kRowDim, 0x7FC0);
  }
}

// A sequence that decodes one token a step from one graph, over the same highway every time.
class Replayed {
 public:
  Replayed(pleiades::Engine& engine, std::size_t name, Order order)
      : name_(name),
        sequence_(engine),
        decoder_(engine, 1, order),
        input_(require(PinnedBuffer::allocate(kWidth * sizeof(float)))),
        outputs_(require(PinnedBuffer::allocate(kHistory * kWidth * sizeof(float)))) {
    for (std::size_t i = 0; i < kWidth; ++i) {
      input_.as<float>()[i] = 0.01F * static_cast<float>(i % 31) - 0.1F * static_cast<float>(name);
    }
    if (order != Order::eager) decoder_.capture(sequence_);
  }

  void step() {
    decoder_.step().stage(sequence_, std::vector<std::int32_t>{good_token(name_, position_)});
    std::byte* const highway = static_cast<std::byte*>(decoder_.args().output);
    const cudaStream_t stream = decoder_.stream().get();
    require(copy_async(highway, input_.data(), input_.bytes(), stream));
    decoder_.run_staged();
    require(copy_async(outputs_.data() + position_ % kHistory * input_.bytes(), highway,
                       input_.bytes(), stream));
    decoder_.step().commit();
    ++position_;
  }

  // The outputs of the last kHistory steps, oldest first, when the device is done.
  std::vector<float> look() {
    require(decoder_.stream().synchronize());
    std::vector<float> outputs(kHistory * kWidth);
    std::memcpy(outputs.data(), outputs_.data(), outputs_.bytes());
    return outputs;
  }
  std::size_t position() const { return position_; }

 private:
  std::size_t name_;
  pleiades::Sequence sequence_;
  DeviceDecoder decoder_;
  PinnedBuffer input_, outputs_;
  std::size_t position_ = 0;
};

// What a sequence's outputs must be once its past is of good tokens only: by position in a period.
std::vector<float> expected_period(const pleiades::Model& model, std::size_t name) {
  auto engine = open_engine(model, {.layers = {SmallModel::kLayers[0]}});
  Replayed replayed(engine, name, Order::eager);
  std::vector<float> period(kPeriod * kWidth);
  while (replayed.position() < 6 * kPeriod) {
    for (std::size_t i = 0; i < kHistory; ++i) replayed.step();
    const std::vector<float> outputs = replayed.look();
    for (std::size_t i = 0; i < kHistory; ++i) {
      const std::size_t at = (replayed.position() - kHistory + i) % kPeriod;
      std::copy_n(outputs.begin() + static_cast<std::ptrdiff_t>(i * kWidth), kWidth,
                  period.begin() + static_cast<std::ptrdiff_t>(at * kWidth));
    }
  }
  return period;
}

class Torture : public testing::TestWithParam<Order> {
 protected:
  void SetUp() override { skip_without_device(); }
};

TEST_P(Torture, NoSlotIsOverwrittenBeforeTheDeviceHasReadIt) {
  Random random;
  SmallModel model(random.bits());
  poison(model);
  auto engine = open_engine(
      model.model(),
      {.arena = PLE_ARENA_CACHED, .cache_bytes = 4 * 16 * 32, .layers = {SmallModel::kLayers[0]}});
  ASSERT_EQ(engine.info().slot_count, 64U);
  std::vector<Replayed> good;
  std::vector<std::vector<float>> wanted;
  for (std::size_t name = 0; name < 2; ++name) {
    good.emplace_back(engine, name, GetParam());
    wanted.push_back(expected_period(model.model(), name));
    ASSERT_TRUE(std::none_of(wanted.back().begin(), wanted.back().end(),
                             [](float value) { return std::isnan(value); }));
  }
  pleiades::Sequence bad(engine);
  DeviceDecoder bad_decoder(engine, 8, Order::eager);
  for (int step = 0; step < kSteps;) {
    for (std::size_t i = 0; i < kHistory; ++i, ++step) {
      good[0].step();
      std::vector<std::int32_t> tokens(static_cast<std::size_t>(random.between(1, 8)));
      for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(random.between(10, 96));
      bad_decoder.step().stage(bad, tokens);
      bad_decoder.run_staged();
      good[1].step();
      bad_decoder.step().commit();
    }
    for (std::size_t name = 0; name < 2; ++name) {
      const std::vector<float> outputs = good[name].look();
      if (good[name].position() <= 2 * kPeriod) continue;
      for (std::size_t i = 0; i < kHistory; ++i) {
        const std::size_t at = (good[name].position() - kHistory + i) % kPeriod;
        ASSERT_EQ(std::memcmp(outputs.data() + i * kWidth, wanted[name].data() + at * kWidth,
                              kWidth * sizeof(float)),
                  0)
            << "sequence " << name << " at step " << step;
      }
    }
  }
  EXPECT_GT(engine.metrics().rows_missed, static_cast<std::uint64_t>(kSteps));
}

INSTANTIATE_TEST_SUITE_P(Orders, Torture,
                         testing::Values(Order::prepared_graph, Order::waiting_graph));

}  // namespace
}  // namespace ple::test
