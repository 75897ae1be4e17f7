#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "device/cuda_graph.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_stream.hpp"
#include "support/small_model.hpp"
#include "support/test_device.hpp"

namespace ple::test {

// A failed call of CUDA by the test itself ends it like one of the library's.
inline void require(const Status& status) {
  if (!status.is_ok()) throw pleiades::Error(PLE_DEVICE_ERROR, status.message());
}
template <class T>
T require(Result<T> result) {
  require(result.status());
  return std::move(result).value();
}

// How a batch gets to the device.
enum class Order {
  eager,
  prepared_graph,  // prepare, then launch
  waiting_graph,   // launch, then prepare
};

// A step on a stream of its own with a highway in device memory, and the graph that was captured of
// it: what an engine does to decode. Runs the first layer of a SmallModel.
class DeviceDecoder {
 public:
  static constexpr std::int32_t kLayer = SmallModel::kLayers[0];
  static constexpr std::int32_t kWidth = SmallModel::kHighway;

  // The next token_count tokens of a track.
  struct Part {
    pleiades::Sequence* sequence;
    Track* track;
    std::size_t token_count;
  };

  DeviceDecoder(pleiades::Engine& engine, std::int32_t capacity, Order order)
      : capacity_(capacity),
        order_(order),
        step_(engine, {.tokens_max = capacity, .sequences_max = capacity}),
        stream_(require(CudaStream::create())),
        highway_(require(
            DeviceBuffer::allocate(static_cast<std::size_t>(capacity * kWidth) * sizeof(float)))) {}

  // Captures what run will launch, staged on a sequence that does not move.
  void capture(pleiades::Sequence& sequence) {
    step_.stage(sequence, std::vector<std::int32_t>{1});
    Result<CudaGraph> graph = CudaGraph::capture(stream_.get(), [&] { return enqueue_captured(); });
    step_.discard();
    graph_ = require(std::move(graph));
  }

  // One batch: stages it, runs it in the decoder's order, commits it; its output goes to the
  // tracks.
  void run(std::span<const Part> parts) {
    stage(parts);
    fill(parts);
    run_staged();
    step_.commit();
    drain(parts);
  }

  void stage(std::span<const Part> parts) {
    std::vector<pleiades::Part> batch;
    for (const Part& part : parts) {
      const auto position = static_cast<std::size_t>(part.sequence->position());
      batch.push_back(
          {*part.sequence, std::span(part.track->tokens).subspan(position, part.token_count)});
    }
    step_.stage(batch);
  }

  // The highway of the batch, and what must not be touched behind it.
  void fill(std::span<const Part> parts) {
    std::vector<float> input;
    for (const Part& part : parts) {
      const auto more = highway_at(part.track->name, part.sequence->position(), part.token_count);
      input.insert(input.end(), more.begin(), more.end());
    }
    input.resize(static_cast<std::size_t>(capacity_ * kWidth), NAN);
    require(copy_async(highway_.data(), input.data(), highway_.bytes(), stream_.get()));
  }

  void run_staged() {
    if (order_ == Order::eager) run_eagerly();
    if (order_ == Order::prepared_graph) step_.prepare(stream_.get());
    if (order_ != Order::eager) launch();
    if (order_ == Order::waiting_graph) step_.prepare(stream_.get());
  }

  void run_eagerly() { step_.run(kLayer, args()); }
  void launch() { require(graph_.launch(stream_.get())); }

  // After commit: the positions are behind the batch.
  void drain(std::span<const Part> parts) {
    const std::vector<float> output = read_highway();
    std::size_t at = 0;
    for (const Part& part : parts) {
      std::vector<float>& out = part.track->out[0];
      const auto begin = static_cast<std::size_t>(part.sequence->position()) - part.token_count;
      out.resize(begin * kWidth);
      out.insert(out.end(), output.begin() + static_cast<std::ptrdiff_t>(at * kWidth),
                 output.begin() + static_cast<std::ptrdiff_t>((at + part.token_count) * kWidth));
      at += part.token_count;
    }
    for (std::size_t i = at * kWidth; i < output.size(); ++i) ASSERT_TRUE(std::isnan(output[i]));
  }

  std::vector<float> read_highway() {
    std::vector<float> output(highway_.bytes() / sizeof(float));
    require(copy_async(output.data(), highway_.data(), highway_.bytes(), stream_.get()));
    require(stream_.synchronize());
    return output;
  }

  ple_run_args args() const {
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.input = highway_.data();
    args.output = highway_.data();
    args.stream = stream_.get();
    return args;
  }

  Order order() const { return order_; }
  pleiades::Step& step() { return step_; }
  const CudaStream& stream() const { return stream_; }

 private:
  Status enqueue_captured() {
    try {
      if (order_ == Order::waiting_graph) step_.prepare(stream_.get());
      step_.run(kLayer, args());
    } catch (const pleiades::Error& error) {
      return {StatusCode::device_error, error.what()};  // the capture has to be ended
    }
    return {};
  }

  std::int32_t capacity_;
  Order order_;
  pleiades::Step step_;
  CudaStream stream_;
  DeviceBuffer highway_;
  CudaGraph graph_;
};

}  // namespace ple::test
