#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernels/cuda_layer.hpp"
#include "kernels/engram_layer_cuda.hpp"
#include "support/engram_problem.hpp"

namespace ple::test {

// An Engram layer on the current CUDA device, driven through one graph that is captured at the
// largest step.
class EngramCudaLayer {
 public:
  struct Options {
    kernels::EngramRounding rounding;
    kernels::EngramWeightForm form = kernels::EngramWeightForm::e4m3;
    kernels::HighwayType highway_type = kernels::HighwayType::f32;
    kernels::OutputMode output_mode = kernels::OutputMode::delta;
    bool has_wgmma = true;
    std::int32_t token_capacity = 1;
    std::int32_t multiprocessor_count = 0;  // 0: the device's
  };

  EngramCudaLayer(const EngramProblem& problem, const Options& options)
      : problem_(problem), options_(options) {
    stream_ = CudaStream::create().value();
    traits_ = cuda_traits(0).value();
    if (!options.has_wgmma) traits_.compute_major = 8;
    if (options.multiprocessor_count != 0) {
      traits_.multiprocessor_count = options.multiprocessor_count;
    }
    pack_weights();
    table_ = to_device(problem.table);
    capture();
  }
  EngramCudaLayer(const EngramCudaLayer&) = delete;
  EngramCudaLayer& operator=(const EngramCudaLayer&) = delete;
  ~EngramCudaLayer() { (void)cudaGraphExecDestroy(graph_); }

  // Tokens token_begin .. token_begin + token_count - 1 of the batch in one step.
  std::vector<float> run(const EngramBatch& batch, std::int32_t token_begin,
                         std::int32_t token_count) {
    const std::int64_t width = problem_.channel_count();
    const kernels::EngramStepView step = view(block_.data());
    const std::int32_t columns = problem_.shape.column_count;
    std::fill_n(step.slots, std::int64_t{options_.token_capacity} * columns, 0xFFFFFFF0U);
    for (std::int32_t i = token_count; i < options_.token_capacity; ++i) {
      step.slots[std::int64_t{i} * columns] = kNoTokenSlot;
    }
    std::copy_n(batch.slots.begin() + std::int64_t{token_begin} * columns, token_count * columns,
                step.slots);
    std::copy_n(batch.dead.begin() + token_begin, token_count, step.dead);
    *step.counts = {.token_count = token_count};
    std::vector<float> highway(static_cast<std::size_t>(options_.token_capacity * width), NAN);
    std::copy_n(batch.highway.begin() + token_begin * width, token_count * width, highway.begin());
    replay_on(highway);
    // What is behind the batch was not touched.
    for (std::size_t i = static_cast<std::size_t>(token_count * width); i < highway.size(); ++i) {
      if (!std::isnan(highway[i])) ADD_FAILURE() << "element " << i << " was written";
    }
    highway.resize(static_cast<std::size_t>(token_count * width));
    return highway;
  }
  std::vector<float> run(const EngramBatch& batch) { return run(batch, 0, batch.token_count); }

  // Replays the last step as it is staged; the output goes over its highway.
  Status replay(cudaStream_t stream) const {
    PLE_CUDA_TRY(cudaGraphLaunch(graph_, stream));
    return {};
  }
  const CudaStream& stream() const { return stream_; }

 private:
  kernels::EngramStepView view(std::byte* block) const {
    return kernels::EngramStepBlock::view(block, problem_.shape, options_.token_capacity);
  }
  bool is_f32() const { return options_.highway_type == kernels::HighwayType::f32; }

  void pack_weights() {
    const DeviceBuffer codes = to_device(problem_.codes);
    const DeviceBuffer scales = to_device(problem_.scales);
    const DeviceBuffer query_weight = to_device(problem_.query_weight);
    const DeviceBuffer key_weight = to_device(problem_.key_weight);
    weights_ =
        DeviceBuffer::allocate(kernels::EngramWeightsCuda::bytes(problem_.shape, options_.form))
            .value();
    expect_ok(kernels::pack_engram_weights_cuda({.shape = problem_.shape,
                                                 .form = options_.form,
                                                 .codes = codes.as<std::uint8_t>(),
                                                 .scales = scales.as<std::uint8_t>(),
                                                 .query_weight = query_weight.as<std::uint16_t>(),
                                                 .key_weight = key_weight.as<std::uint16_t>(),
                                                 .memory = weights_.data()},
                                                stream_.get()));
    expect_ok(stream_.synchronize());
  }

  void capture() {
    const std::int32_t capacity = options_.token_capacity;
    const std::size_t block_bytes = kernels::EngramStepBlock::bytes(problem_.shape, capacity);
    block_ = PinnedBuffer::allocate(block_bytes).value();
    block_copy_ = DeviceBuffer::allocate(block_bytes).value();
    scratch_ = DeviceBuffer::allocate(kernels::engram_layer_scratch_bytes_cuda(
                                          problem_.shape, options_.rounding, capacity))
                   .value();
    EXPECT_CUDA(cudaMemsetAsync(scratch_.data(), 0xFF, scratch_.bytes(), stream_.get()));
    highway_ =
        DeviceBuffer::allocate(static_cast<std::size_t>(capacity * problem_.channel_count()) *
                               (is_f32() ? 4 : 2))
            .value();
    RowView rows = problem_.rows();
    rows.staging = table_.data() + (rows.staging - rows.arena);
    rows.arena = table_.data();
    cudaGraph_t graph = nullptr;
    EXPECT_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
    expect_ok(kernels::engram_layer_cuda({.shape = problem_.shape,
                                          .rounding = options_.rounding,
                                          .highway_type = options_.highway_type,
                                          .output_mode = options_.output_mode,
                                          .traits = traits_,
                                          .form = options_.form,
                                          .weights = kernels::EngramWeightsCuda::view(
                                              weights_.data(), problem_.shape, options_.form),
                                          .rows = rows,
                                          .step = block_copy_.data(),
                                          .pinned_step = block_.data(),
                                          .highway = highway_.data(),
                                          .output = highway_.data(),
                                          .scratch = scratch_.data(),
                                          .token_capacity = capacity},
                                         stream_.get()));
    EXPECT_CUDA(cudaStreamEndCapture(stream_.get(), &graph));
    EXPECT_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    EXPECT_CUDA(cudaGraphDestroy(graph));
  }

  // Leaves the output in the highway's place.
  void replay_on(std::vector<float>& highway) {
    std::vector<std::uint16_t> narrow;
    for (const float value : highway) narrow.push_back(f32_to_bf16(value));
    const void* data = is_f32() ? static_cast<const void*>(highway.data()) : narrow.data();
    expect_ok(copy_async(highway_.data(), data, highway_.bytes(), stream_.get()));
    expect_ok(replay(stream_.get()));
    expect_ok(stream_.synchronize());
    if (is_f32()) {
      highway = to_host<float>(highway_);
      return;
    }
    narrow = to_host<std::uint16_t>(highway_);
    std::transform(narrow.begin(), narrow.end(), highway.begin(), bf16_to_f32);
  }

  const EngramProblem& problem_;
  Options options_;
  CudaStream stream_;
  CudaTraits traits_;
  DeviceBuffer weights_, table_, block_copy_, scratch_, highway_;
  PinnedBuffer block_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace ple::test
