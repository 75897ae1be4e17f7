#pragma once

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <span>

#include "bench/timed_layer.hpp"

namespace pleiades::cli {

// What one step on a GPU takes: microseconds, and memory.
struct GpuStepCosts {
  double run_us = 0;   // of the device: graphs replayed back to back over engines that take turns
  double step_us = 0;  // stage, prepare, launch, commit, and until the device is done
  double host_us = 0;  // prepare, launch and commit: what the host does beyond staging
  double empty_launch_us = 0;   // host time of launching a graph of one empty node
  std::int64_t step_bytes = 0;  // of device memory that a step takes for itself
};

// Times a step of token_count tokens, of one sequence or of as many, by captured graphs. The
// engines are of one model; several of them, so that no step finds its weights in the L2.
GpuStepCosts time_gpu_steps(std::span<Engine> engines, const TimedLayer& layer, ple_element element,
                            std::int32_t token_count, bool is_decode);

}  // namespace pleiades::cli
