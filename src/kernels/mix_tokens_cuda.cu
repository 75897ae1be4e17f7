#include "device/cuda_check.hpp"
#include "kernels/mix.cuh"

// The last pass for few tokens, each by blocks of its own: all that the product does not write is
// read while the product still runs.

namespace ple::kernels {

namespace {

// A token's place in its sequence. While decoding, a token's span has its index: that one is read
// before it is known.
struct TokenPlace {
  int span_index = -1;
  PleSpan span;

  __device__ TokenPlace(const MixArgs& args, int token) {
    if (token >= args.token_capacity) return;
    span_index = args.step.token_span[token];
    span = args.step.spans[token < args.span_capacity ? token : 0];
  }
  __device__ void settle(const MixArgs& args, int token) {
    if (span_index >= 0 && span_index != token) span = args.step.spans[span_index];
  }
};

// One token of a lane's channels. The gates of the taps, this token's the last, go through shared
// memory, of which each warp has its own part, because the code that makes one of sums shall stand
// here only once.
template <class M>
__device__ void mix_token(const MixArgs& args, const MixLane<M>& lane,
                          const LaneWeights<M>& weights, const TokenPlace& place, int token,
                          Gate (&gates)[M::kTaps]) {
  constexpr int kPast = M::kTaps - 1;
  const int index = token - place.span.token_begin;
  const auto highway = lane.highway_of(token);
  typename MixLane<M>::Values values[M::kTaps];
  Gate kept[kPast];
#pragma unroll
  for (int tap = 0; tap < kPast; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before < 0) lane.load_ring(place.span, before, values[tap], kept[tap]);
  }
  wait_previous_kernel();
#pragma unroll
  for (int tap = 0; tap < M::kTaps; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before >= 0) values[tap] = lane.values_of(place.span.token_begin + before);
  }
  const int next_token = token + static_cast<int>(gridDim.y);
  TokenPlace next(args, next_token);
#pragma unroll 1
  for (int tap = 0; tap < M::kTaps; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before >= 0) gates[tap] = lane.gate_of(place.span.token_begin + before);
  }
  next.settle(args, next_token);
  if (next.span_index >= 0) lane.prefetch(next.span, next_token);
#pragma unroll
  for (int tap = 0; tap < kPast; ++tap) {
    if (index < (kPast - tap) * args.shape.dilation) gates[tap] = kept[tap];
  }
  __syncwarp();

  float out[kLaneChannels];
#pragma unroll
  for (int i = 0; i < kLaneChannels; ++i) {
    float y = 0.0F;
#pragma unroll
    for (int tap = 0; tap < M::kTaps; ++tap) {
      y = __fmaf_rn(weights.taps[tap][i], lane.input(values[tap][i], gates[tap], weights.scale[i]),
                    y);
    }
    out[i] = lane.mixed(highway[i], values[kPast][i], gates[kPast], y);
  }
  if (auto* output = lane.output_at(token); output != nullptr) {
    *output = MixLane<M>::Highways::of(out);
  }
  lane.store_ring(place.span, index, values[kPast], gates[kPast]);
  __syncwarp();
}

template <class M>
__global__ __launch_bounds__(kMaxMixThreads,
                             2) void mix_tokens_kernel(const __grid_constant__ MixArgs args) {
  __shared__ Gate gates[kMaxMixThreads / kWarpThreads][M::kTaps];
  const MixLane<M> lane(args);
  const LaneWeights<M> weights(args, lane);
  const int token_count = args.step.counts->token_count;
  for (int token = static_cast<int>(blockIdx.y); token < token_count;
       token += static_cast<int>(gridDim.y)) {
    TokenPlace place(args, token);
    place.settle(args, token);
    if (place.span_index < 0) continue;
    mix_token(args, lane, weights, place, token, gates[threadIdx.x / kWarpThreads]);
  }
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

}  // namespace

Status mix_tokens_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  constexpr int kBlocksPerMultiprocessor = 4;
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
