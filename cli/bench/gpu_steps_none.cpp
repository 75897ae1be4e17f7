#include "bench/gpu_steps.hpp"
#include "command.hpp"

namespace pleiades::cli {

GpuStepCosts time_gpu_steps(std::span<Engine>, const TimedLayer&, ple_element, std::int32_t, bool) {
  refuse("bench layer: this tool was built without CUDA");
}

}  // namespace pleiades::cli
