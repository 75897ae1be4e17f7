#include "device/cuda_check.hpp"
#include "kernels/device_math.cuh"
#include "kernels/ple_stages_cuda.hpp"

namespace ple::kernels {

namespace {

__global__ __launch_bounds__(kMaxPanels) void count_panels_kernel(const PleStepCounts* step,
                                                                  PleStepCounts* panels,
                                                                  int panel_tokens) {
  wait_previous_kernel();
  start_next_kernel();
  const int panel = static_cast<int>(threadIdx.x);
  const int left = step->token_count - panel * panel_tokens;
  panels[panel].token_count = min(max(left, 0), panel_tokens);
}

}  // namespace

Status count_panels_cuda(const PleStepCounts* step, PleStepCounts* panels,
                         std::int32_t panel_tokens, bool is_overlapped, cudaStream_t stream) {
  const Launch shape{.grid = dim3(1), .block_threads = kMaxPanels, .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(count_panels_kernel, shape, stream, step, panels, panel_tokens));
  return {};
}

}  // namespace ple::kernels
