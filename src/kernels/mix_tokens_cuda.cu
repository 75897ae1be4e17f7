#include "device/cuda_check.hpp"
#include "kernels/mix.cuh"

// The last pass for few tokens, each by blocks of its own: all that the product does not write is
// read while the product still runs.

namespace ple::kernels {

namespace {

// A warp makes its gates by itself. They go through shared memory, of which each warp has its own
// part, because the code that makes one shall stand here only once.
template <class M>
__global__ __launch_bounds__(kMaxMixThreads,
                             2) void mix_tokens_kernel(const __grid_constant__ MixArgs args) {
  constexpr int kPast = M::kTaps - 1;
  __shared__ Gate shared[kMaxMixThreads / kWarpThreads][M::kTaps];
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  Gate(&gates)[M::kTaps] = shared[warp];
  const MixLane<M> lane(args, warp, static_cast<int>(blockIdx.x));
  const LaneWeights<M> weights(args, lane);
  const int token = static_cast<int>(blockIdx.y);
  PleSpan span;
  if (token < args.step.counts->token_count && find_span(args, token, span)) {
    const int index = token - span.token_begin;
    const auto highway = lane.highway_of(token);
    typename MixLane<M>::Values values[M::kTaps];
    Gate kept[kPast];
#pragma unroll
    for (int tap = 0; tap < kPast; ++tap) {
      const int before = index - (kPast - tap) * args.shape.dilation;
      if (before < 0) lane.load_ring(span, before, values[tap], kept[tap]);
    }
    wait_previous_kernel();
#pragma unroll
    for (int tap = 0; tap < M::kTaps; ++tap) {
      const int before = index - (kPast - tap) * args.shape.dilation;
      if (before >= 0) values[tap] = lane.values_of(span.token_begin + before);
    }
#pragma unroll 1
    for (int tap = 0; tap < M::kTaps; ++tap) {
      const int before = index - (kPast - tap) * args.shape.dilation;
      if (before >= 0) gates[tap] = lane.gate_of(span.token_begin + before);
    }
#pragma unroll
    for (int tap = 0; tap < kPast; ++tap) {
      if (index < (kPast - tap) * args.shape.dilation) gates[tap] = kept[tap];
    }
    __syncwarp();
    const auto out = mix_taps<M>(weights, highway, values, gates);
    if (auto* output = lane.output_at(token); output != nullptr) *output = out;
    lane.store_ring(span, index, values[kPast], gates[kPast]);
  }
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

}  // namespace

Status mix_tokens_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int channel_blocks = (args.shape.hidden + kWarpChannels - 1) / kWarpChannels;
  const Launch shape{.grid = dim3(static_cast<unsigned>(channel_blocks),
                                  static_cast<unsigned>(args.token_capacity)),
                     .block_threads = args.shape.stream_count * kWarpThreads,
                     .is_overlapped = is_overlapped};
  return with_mode(args, [&]<class M>() -> Status {
    PLE_CUDA_TRY(launch(mix_tokens_kernel<M>, shape, stream, args));
    return {};
  });
}

}  // namespace ple::kernels
