#include "device/cuda_check.hpp"
#include "kernels/mix_token.cuh"

// The last pass for few tokens, each by blocks of its own: all that the product does not write is
// read while the product still runs.

namespace ple::kernels {

namespace {

template <class M>
__global__ __launch_bounds__(kMaxMixThreads,
                             3) void mix_tokens_kernel(const __grid_constant__ MixArgs args) {
  __shared__ Gate gates[kMaxMixThreads / kWarpThreads][M::kTaps];
  const MixLane<M> lane(args, static_cast<int>(threadIdx.x) / kWarpThreads,
                        static_cast<int>(blockIdx.x));
  const auto conv = load_conv<M::kTaps>(args.vectors.conv + lane.weights_at() * M::kTaps);
  const auto norm =
      *reinterpret_cast<const Vector8<std::uint16_t>*>(args.vectors.norm_conv + lane.weights_at());
  const int token_count = args.step.counts->token_count;
  for (int token = static_cast<int>(blockIdx.y); token < token_count;
       token += static_cast<int>(gridDim.y)) {
    const TokenPlace place(args.step, args.span_capacity, token);
    if (place.span_index < 0) continue;
    mix_token(args, lane, conv, norm, place, token, gates[threadIdx.x / kWarpThreads],
              [] { wait_previous_kernel(); });
  }
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

}  // namespace

Status mix_tokens_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  constexpr int kBlocksPerMultiprocessor = 6;
  const int channel_blocks = (args.shape.hidden + kWarpChannels - 1) / kWarpChannels;
  const int resident = args.multiprocessor_count * kBlocksPerMultiprocessor / channel_blocks;
  const int token_blocks =
      args.token_capacity < resident || resident == 0 ? args.token_capacity : resident;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(channel_blocks), static_cast<unsigned>(token_blocks)),
      .block_threads = args.shape.stream_count * kWarpThreads,
      .is_overlapped = is_overlapped};
  return with_mode(args, [&]<class M>() -> Status {
    PLE_CUDA_TRY(launch(mix_tokens_kernel<M>, shape, stream, args));
    return {};
  });
}

}  // namespace ple::kernels
