#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "device/cuda_check.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_stream.hpp"
#include "kernels/ple_layer_cuda.hpp"
#include "support/gpu.hpp"
#include "support/ple_problem.hpp"

namespace ple::test {

// Fails the test where a call of the layer or of CUDA does.
inline void expect_ok(const Status& status) { ASSERT_TRUE(status.is_ok()) << status.message(); }
#define EXPECT_CUDA(call) expect_ok(cuda_status((call), #call))

// Waits for the copy, which may end after the call where the memory is pageable: the layers'
// streams do not wait for the default stream.
template <class T>
DeviceBuffer to_device(const std::vector<T>& values) {
  DeviceBuffer buffer = DeviceBuffer::allocate(values.size() * sizeof(T)).value();
  if (!values.empty()) {
    EXPECT_CUDA(cudaMemcpy(buffer.data(), values.data(), buffer.bytes(), cudaMemcpyDefault));
    EXPECT_CUDA(cudaStreamSynchronize(nullptr));
  }
  return buffer;
}

template <class T>
std::vector<T> to_host(const DeviceBuffer& buffer) {
  std::vector<T> values(buffer.bytes() / sizeof(T));
  EXPECT_CUDA(cudaDeviceSynchronize());
  EXPECT_CUDA(cudaMemcpy(values.data(), buffer.data(), buffer.bytes(), cudaMemcpyDefault));
  return values;
}

// A PLE layer on the current CUDA device, its sequences and their rings, driven step by step
// through one graph that is captured at the largest step.
class CudaLayer {
 public:
  struct Options {
    kernels::Arithmetic arithmetic = kernels::Arithmetic::float32;
    kernels::HighwayType highway_type = kernels::HighwayType::f32;
    kernels::OutputMode output_mode = kernels::OutputMode::delta;
    bool has_wgmma = true;
    std::int32_t draft_count = 10;          // ring entries beyond the window, no fewer than it
    std::int32_t token_capacity = 0;        // of a step; 0: the tokens of all sequences
    std::int32_t multiprocessor_count = 0;  // 0: the device's
  };

  // One sequence's part of a step: its next token_count tokens.
  struct Part {
    std::size_t sequence_index = 0;
    std::int32_t token_count = 0;
  };

  CudaLayer(const PleProblem& problem, const std::vector<PleSequence>& sequences, Options options)
      : problem_(problem), sequences_(sequences), options_(options) {
    stream_ = CudaStream::create().value();
    traits_ = cuda_traits(0).value();
    if (!options.has_wgmma) traits_.compute_major = 8;
    if (options.multiprocessor_count != 0) {
      traits_.multiprocessor_count = options.multiprocessor_count;
    }
    pack_weights();
    table_ = to_device(problem.table);
    ring_length_ = problem.shape.window() + options.draft_count;
    const auto ring_bytes = static_cast<std::size_t>(
        kernels::PleRing::bytes(problem.shape, options.arithmetic, ring_length_));
    for (const PleSequence& sequence : sequences) {
      // Whatever a recycled ring holds must not be read.
      states_.push_back({to_device(std::vector<std::byte>(ring_bytes, std::byte{0xFF})), 0, 0});
      outputs_.emplace_back(sequence.highway.size());
      capacity_ += sequence.token_count;
    }
    if (options.token_capacity != 0) capacity_ = options.token_capacity;
    capacity_ = std::max(capacity_, 1);
    capture();
  }
  CudaLayer(const CudaLayer&) = delete;
  CudaLayer& operator=(const CudaLayer&) = delete;
  ~CudaLayer() {
    (void)cudaGraphExecDestroy(graph_);
    (void)cudaGraphExecDestroy(resident_graph_);
  }

  // Runs one step and, unless told otherwise, moves the sequences on.
  void step(const std::vector<Part>& parts, bool commit = true) {
    EXPECT_CUDA(cudaStreamSynchronize(stream_.get()));
    const kernels::PleStepView step = view(block_.data());
    std::fill_n(step.token_span, capacity_, -1);
    std::fill_n(step.slots, std::int64_t{capacity_} * problem_.shape.column_count, 0xFFFFFFF0U);
    for (std::int32_t i = 0; i < capacity_; ++i) {
      step.slots[std::int64_t{i} * problem_.shape.column_count] = kNoTokenSlot;
    }
    std::vector<float> highway(static_cast<std::size_t>(capacity_ * problem_.channel_count()), NAN);
    std::int32_t token = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const State& state = states_[parts[i].sequence_index];
      const PleSequence& sequence = sequences_[parts[i].sequence_index];
      const std::int32_t count = parts[i].token_count;
      step.spans[i] = {state.ring.data(),
                       state.position,
                       token,
                       count,
                       state.cursor,
                       std::min(count, options_.draft_count)};
      std::fill_n(step.token_span + token, count, static_cast<std::int32_t>(i));
      copy_part(sequence.slots, state.position, count, problem_.shape.column_count,
                step.slots + std::int64_t{token} * problem_.shape.column_count);
      copy_part(sequence.highway, state.position, count, problem_.channel_count(),
                highway.data() + token * problem_.channel_count());
      token += count;
    }
    *step.counts = {token, static_cast<std::int32_t>(parts.size()), {}};
    run(highway);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      State& state = states_[parts[i].sequence_index];
      const std::int64_t width = problem_.channel_count();
      std::copy_n(highway.begin() + step.spans[i].token_begin * width, parts[i].token_count * width,
                  outputs_[parts[i].sequence_index].begin() + state.position * width);
      if (!commit) continue;
      state.position += parts[i].token_count;
      state.cursor = (state.cursor + step.spans[i].write_count) % std::max(ring_length_, 1);
    }
    // What is behind the batch was not touched.
    for (std::size_t i = static_cast<std::size_t>(token * problem_.channel_count());
         i < highway.size(); ++i) {
      ASSERT_TRUE(std::isnan(highway[i]));
    }
  }

  // All that is left of every sequence, in one step.
  void step_rest() {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      parts.push_back(
          {i, sequences_[i].token_count - static_cast<std::int32_t>(states_[i].position)});
    }
    step(parts);
  }

  // Replays the last step as it is staged; the output goes over its highway. is_resident: without
  // bringing the step's block from pinned memory again.
  Status replay(cudaStream_t stream, bool is_resident = false) const {
    PLE_CUDA_TRY(cudaGraphLaunch(is_resident ? resident_graph_ : graph_, stream));
    return {};
  }

  // Enqueues the kernels of a step; null: of the step whose block is on the device.
  Status enqueue(const std::byte* pinned_step) {
    return kernels::ple_layer_cuda({.shape = problem_.shape,
                                    .arithmetic = options_.arithmetic,
                                    .highway_type = options_.highway_type,
                                    .output_mode = options_.output_mode,
                                    .traits = traits_,
                                    .weights = weights(),
                                    .rows = rows(),
                                    .step = block_copy_.data(),
                                    .pinned_step = pinned_step,
                                    .highway = highway_.data(),
                                    .output = highway_.data(),
                                    .scratch = scratch_.data(),
                                    .ring_length = ring_length_,
                                    .token_capacity = capacity_,
                                    .span_capacity = span_capacity()},
                                   stream_.get());
  }

  struct State {
    DeviceBuffer ring;
    std::int64_t position = 0;
    std::int32_t cursor = 0;
  };

  State& state(std::size_t sequence_index) { return states_[sequence_index]; }
  std::int32_t ring_length() const { return ring_length_; }
  const CudaTraits& traits() const { return traits_; }
  const CudaStream& stream() const { return stream_; }
  kernels::PleWeightsCuda weights() const {
    return kernels::PleWeightsCuda::view(weights_.data(), problem_.shape, problem_.vectors());
  }
  std::byte* scratch() { return scratch_.data(); }
  RowView rows() const {
    RowView rows = problem_.rows();
    rows.staging = table_.data() + (rows.staging - rows.arena);
    rows.arena = table_.data();
    return rows;
  }
  const std::vector<float>& output(std::size_t sequence_index) const {
    return outputs_[sequence_index];
  }

 private:
  template <class T>
  static void copy_part(const std::vector<T>& from, std::int64_t position, std::int64_t count,
                        std::int64_t width, T* to) {
    std::copy_n(from.begin() + position * width, count * width, to);
  }

  kernels::PleStepView view(std::byte* block) const {
    return kernels::PleStepBlock::view(block, problem_.shape, capacity_, span_capacity());
  }
  std::int32_t span_capacity() const { return static_cast<std::int32_t>(sequences_.size()); }

  void pack_weights() {
    const DeviceBuffer key = to_device(problem_.key);
    const DeviceBuffer value = to_device(problem_.value);
    const DeviceBuffer norm_key = to_device(problem_.norm_key);
    const DeviceBuffer norm_query = to_device(problem_.norm_query);
    const DeviceBuffer norm_conv = to_device(problem_.norm_conv);
    const DeviceBuffer conv = to_device(problem_.conv);
    const DeviceBuffer key_bias = to_device(problem_.key_bias);
    const DeviceBuffer value_bias = to_device(problem_.value_bias);
    weights_ = DeviceBuffer::allocate(kernels::PleWeightsCuda::bytes(problem_.shape)).value();
    expect_ok(kernels::pack_ple_weights_cuda(
        {.shape = problem_.shape,
         .key = key.as<std::uint16_t>(),
         .value = value.as<std::uint16_t>(),
         .vectors = {norm_key.as<std::uint16_t>(), norm_query.as<std::uint16_t>(),
                     norm_conv.as<std::uint16_t>(), conv.as<std::uint16_t>(),
                     key_bias.as<std::uint16_t>(), value_bias.as<std::uint16_t>()},
         .memory = weights_.data()},
        stream_.get()));
    expect_ok(stream_.synchronize());
  }

  void capture() {
    const std::size_t block_bytes =
        kernels::PleStepBlock::bytes(problem_.shape, capacity_, span_capacity());
    block_ = PinnedBuffer::allocate(block_bytes).value();
    block_copy_ = DeviceBuffer::allocate(block_bytes).value();
    scratch_ = DeviceBuffer::allocate(kernels::ple_layer_scratch_bytes_cuda(
                                          problem_.shape, options_.arithmetic, capacity_))
                   .value();
    EXPECT_CUDA(cudaMemsetAsync(scratch_.data(), 0xFF, scratch_.bytes(), stream_.get()));
    const bool is_f32 = options_.highway_type == kernels::HighwayType::f32;
    highway_ =
        DeviceBuffer::allocate(static_cast<std::size_t>(capacity_ * problem_.channel_count()) *
                               (is_f32 ? 4 : 2))
            .value();
    graph_ = captured(block_.data());
    resident_graph_ = captured(nullptr);
  }
  cudaGraphExec_t captured(const std::byte* pinned_step) {
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
    expect_ok(enqueue(pinned_step));
    EXPECT_CUDA(cudaStreamEndCapture(stream_.get(), &graph));
    cudaGraphExec_t exec = nullptr;
    EXPECT_CUDA(cudaGraphInstantiate(&exec, graph, 0));
    EXPECT_CUDA(cudaGraphDestroy(graph));
    return exec;
  }

  // Replays the step on a highway; leaves the output in its place.
  void run(std::vector<float>& highway) {
    const bool is_f32 = options_.highway_type == kernels::HighwayType::f32;
    std::vector<std::uint16_t> narrow;
    for (const float value : highway) narrow.push_back(f32_to_bf16(value));
    const void* data = is_f32 ? static_cast<const void*>(highway.data()) : narrow.data();
    // In the stream's order: a copy of pageable memory may return before it has ended.
    expect_ok(copy_async(highway_.data(), data, highway_.bytes(), stream_.get()));
    EXPECT_CUDA(cudaGraphLaunch(graph_, stream_.get()));
    expect_ok(copy_async(block_copy_.data(), block_.data(), block_.bytes(), stream_.get()));
    expect_ok(stream_.synchronize());
    if (is_f32) {
      highway = to_host<float>(highway_);
    } else {
      narrow = to_host<std::uint16_t>(highway_);
      for (std::size_t i = 0; i < narrow.size(); ++i) highway[i] = bf16_to_f32(narrow[i]);
    }
  }

  const PleProblem& problem_;
  const std::vector<PleSequence>& sequences_;
  Options options_;
  CudaStream stream_;
  CudaTraits traits_;
  DeviceBuffer weights_, table_, block_copy_, scratch_, highway_;
  PinnedBuffer block_;
  cudaGraphExec_t graph_ = nullptr;
  cudaGraphExec_t resident_graph_ = nullptr;
  std::int32_t ring_length_ = 0;
  std::int32_t capacity_ = 0;
  std::vector<State> states_;
  std::vector<std::vector<float>> outputs_;
};

}  // namespace ple::test
