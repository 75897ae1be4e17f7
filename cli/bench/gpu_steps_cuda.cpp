#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <vector>

#include "bench/cuda_owners.hpp"
#include "bench/gpu_steps.hpp"

namespace pleiades::cli {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWarmUps = 20;
constexpr int kBatches = 15;  // of timed replays, whose median counts
constexpr double kBatchUs = 4000;
constexpr int kHostSteps = 200;

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

std::int64_t free_device_bytes() {
  std::size_t free = 0;
  std::size_t total = 0;
  CHECK_CUDA(cudaMemGetInfo(&free, &total));
  return static_cast<std::int64_t>(free);
}

// A step with its input in device memory, captured. Lives as long as the process measures.
class CapturedStep {
 public:
  CapturedStep(Engine& engine, const TimedLayer& layer, ple_element element,
               std::int32_t token_count, bool is_decode, cudaStream_t stream)
      : layer_(layer),
        sequence_count_(is_decode ? token_count : 1),
        token_count_(token_count),
        free_before_(free_device_bytes()),
        step_(engine, {.tokens_max = token_count, .sequences_max = sequence_count_}),
        device_bytes_(free_before_ - free_device_bytes()),
        stream_(stream),
        input_(layer.input_bytes(element, token_count)),
        output_(layer.output_bytes(element, token_count)) {
    for (std::int32_t i = 0; i < sequence_count_; ++i) sequences_.emplace_back(engine);
    const std::vector<std::byte> input = layer.input(element, 0, token_count);
    CHECK_CUDA(cudaMemcpy(input_.get(), input.data(), input.size(), cudaMemcpyDefault));
    stage();
    CHECK_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    ple_run_args args = PLE_RUN_ARGS_INIT;
    args.element = element;
    args.input = input_.get();
    args.output = output_.get();
    args.stream = stream;
    step_.run(layer_.index(), args);
    cudaGraph_t graph = nullptr;
    CHECK_CUDA(cudaStreamEndCapture(stream, &graph));
    CHECK_CUDA(cudaGraphInstantiate(&graph_, graph, 0));
    CHECK_CUDA(cudaGraphDestroy(graph));
    step_.discard();
  }
  CapturedStep(const CapturedStep&) = delete;
  CapturedStep& operator=(const CapturedStep&) = delete;
  ~CapturedStep() { (void)cudaGraphExecDestroy(graph_); }

  void stage() {
    const std::int32_t each = token_count_ / sequence_count_;
    std::vector<Part> parts;
    texts_.clear();
    for (std::int32_t i = 0; i < sequence_count_; ++i) {
      texts_.push_back(layer_.tokens(sequences_[0].position() + i * 1000, each));
    }
    for (std::int32_t i = 0; i < sequence_count_; ++i) {
      parts.push_back(
          {sequences_[static_cast<std::size_t>(i)], texts_[static_cast<std::size_t>(i)]});
    }
    step_.stage(parts);
  }
  void launch() { CHECK_CUDA(cudaGraphLaunch(graph_, stream_)); }

  // A whole step; the microseconds of the host between staging and the end of commit.
  double run() {
    stage();
    const Clock::time_point begin = Clock::now();
    step_.prepare(stream_);
    launch();
    step_.commit();
    return microseconds_since(begin);
  }

  Step& step() { return step_; }
  std::int64_t device_bytes() const { return device_bytes_; }

 private:
  const TimedLayer& layer_;
  std::int32_t sequence_count_;
  std::int32_t token_count_;
  std::int64_t free_before_;
  Step step_;
  std::int64_t device_bytes_;
  cudaStream_t stream_;
  std::vector<Sequence> sequences_;
  std::vector<std::vector<std::int32_t>> texts_;
  GpuBuffer input_, output_;
  cudaGraphExec_t graph_ = nullptr;
};

double time_replays(std::vector<std::unique_ptr<CapturedStep>>& steps, cudaStream_t stream) {
  const GpuEvent begin;
  const GpuEvent end;
  const auto timed = [&](int rounds) {
    CHECK_CUDA(cudaEventRecord(begin.get(), stream));
    for (int i = 0; i < rounds; ++i) {
      for (const auto& step : steps) step->launch();
    }
    CHECK_CUDA(cudaEventRecord(end.get(), stream));
    CHECK_CUDA(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    CHECK_CUDA(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return 1000.0 * milliseconds / rounds / static_cast<double>(steps.size());
  };
  const int rounds =
      std::max(1, static_cast<int>(kBatchUs / timed(kWarmUps) / static_cast<double>(steps.size())));
  std::vector<double> times;
  for (int i = 0; i < kBatches; ++i) times.push_back(timed(rounds));
  return median(times);
}

double time_empty_launch(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  cudaGraphNode_t node = nullptr;
  cudaGraphExec_t exec = nullptr;
  CHECK_CUDA(cudaGraphCreate(&graph, 0));
  CHECK_CUDA(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
  CHECK_CUDA(cudaGraphInstantiate(&exec, graph, 0));
  std::vector<double> times;
  for (int i = 0; i < kHostSteps; ++i) {
    const Clock::time_point begin = Clock::now();
    CHECK_CUDA(cudaGraphLaunch(exec, stream));
    times.push_back(microseconds_since(begin));
    CHECK_CUDA(cudaStreamSynchronize(stream));
  }
  CHECK_CUDA(cudaGraphExecDestroy(exec));
  CHECK_CUDA(cudaGraphDestroy(graph));
  return median(times);
}

}  // namespace

GpuStepCosts time_gpu_steps(std::span<Engine> engines, const TimedLayer& layer, ple_element element,
                            std::int32_t token_count, bool is_decode) {
  const GpuStream own_stream;
  const cudaStream_t stream = own_stream.get();
  GpuStepCosts costs;
  std::vector<std::unique_ptr<CapturedStep>> steps;
  for (Engine& engine : engines) {
    steps.push_back(
        std::make_unique<CapturedStep>(engine, layer, element, token_count, is_decode, stream));
    costs.step_bytes = steps.back()->device_bytes();
  }
  std::vector<double> host_us;
  std::vector<double> step_us;
  for (int i = 0; i < kHostSteps; ++i) {
    const Clock::time_point begin = Clock::now();
    host_us.push_back(steps[0]->run());
    CHECK_CUDA(cudaStreamSynchronize(stream));
    step_us.push_back(microseconds_since(begin));
    if (token_count > 1024 && i == 20) break;
  }
  for (const auto& step : steps) {
    step->stage();
    step->step().prepare(stream);
  }
  costs.run_us = time_replays(steps, stream);
  for (const auto& step : steps) step->step().discard();
  costs.step_us = median(step_us);
  costs.host_us = median(host_us);
  costs.empty_launch_us = time_empty_launch(stream);
  return costs;
}

}  // namespace pleiades::cli
