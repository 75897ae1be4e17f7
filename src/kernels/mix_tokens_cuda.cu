#include "device/cuda_check.hpp"
#include "kernels/mix.cuh"

// The last pass for the fewest tokens, each with blocks of its own. Its code is run once and must
// be fetched for it: what does not wait for the product is done before, the taps of earlier steps
// among it.

namespace ple::kernels {

namespace {

// The weights of one tap. They are read where it is added, because a loop over the taps is shorter
// than all of them in registers.
template <class M>
struct TapWeights {
  float tap[kLaneChannels];
  float scale[kLaneChannels];  // 1 + w_conv

  __device__ TapWeights(const MixArgs& args, const MixLane<M>& lane, int index) {
    const auto norm = *reinterpret_cast<const Vector8<std::uint16_t>*>(args.vectors.norm_conv +
                                                                       lane.weights_at());
    const std::uint16_t* conv = args.vectors.conv + lane.weights_at() * M::kTaps + index;
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      scale[i] = args.vectors.norm_offset + norm[i];
      tap[i] = lane.weight(bf16_value(conv[i * M::kTaps]), scale[i]);
    }
  }
  __device__ void add(const typename MixLane<M>::Values& values, Gate gate,
                      float (&sums)[kLaneChannels]) const {
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      sums[i] = __fmaf_rn(tap[i], MixLane<M>::input(values[i], gate, scale[i]), sums[i]);
    }
  }
};

// Makes the value here, before the wait; else the compiler makes it where it is needed.
__device__ inline float made(float value) {
  asm volatile("" : "+f"(value));
  return value;
}
template <class T>
__device__ inline T* made(T* place) {
  asm volatile("" : "+l"(place));
  return place;
}

template <class M>
__device__ void mix_token(const MixArgs& args, const MixLane<M>& lane, PleSpan span, int token) {
  constexpr int kPast = M::kTaps - 1;
  const int index = token - span.token_begin;
  const auto highway = lane.highway_of(token);
  float sums[kLaneChannels] = {};
  int tap = 0;
#pragma unroll 1
  for (; tap < kPast; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before >= 0) break;
    typename MixLane<M>::Values values;
    Gate gate;
    lane.load_ring(span, before, values, gate);
    TapWeights<M>(args, lane, tap).add(values, gate, sums);
  }
  TapWeights<M> own(args, lane, kPast);
#pragma unroll
  for (float& weight : own.tap) weight = made(weight);
  auto* const output = made(lane.output_at(token));
  auto ring = lane.ring_place(span, index);
  ring = {made(ring.values), made(ring.gates)};
  wait_previous_kernel();
#pragma unroll 1
  for (; tap < kPast; ++tap) {  // of this step
    const int before = token - (kPast - tap) * args.shape.dilation;
    TapWeights<M>(args, lane, tap).add(lane.values_of(before), lane.gate_of(before), sums);
  }
  const auto values = lane.values_of(token);
  const Gate gate = lane.gate_of(token);
  own.add(values, gate, sums);
  float out[kLaneChannels];
#pragma unroll
  for (int i = 0; i < kLaneChannels; ++i) {
    out[i] = lane.mixed(highway[i], values[i], gate, sums[i]);
  }
  if (output != nullptr) *output = MixLane<M>::Highways::of(out);
  lane.store_ring(ring, values, gate);
}

template <class M>
__global__ __launch_bounds__(kMaxMixThreads,
                             2) void mix_tokens_kernel(const __grid_constant__ MixArgs args) {
  const MixLane<M> lane(args, static_cast<int>(threadIdx.x) / kWarpThreads,
                        static_cast<int>(blockIdx.x));
  const auto token = static_cast<int>(blockIdx.y);
  PleSpan span;
  if (token < args.step.counts->token_count && find_span(args, token, span)) {
    mix_token(args, lane, span, token);
  }
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

}  // namespace

Status mix_tokens_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int channel_blocks = (args.shape.hidden + kWarpChannels - 1) / kWarpChannels;
  const Launch shape{.grid = dim3(static_cast<unsigned>(channel_blocks),
                                  static_cast<unsigned>(args.token_capacity)),
                     .block_threads = args.shape.stream_count * kWarpThreads,
                     .is_overlapped = is_overlapped,
                     .is_beside_product = true};
  return with_mode(args, [&]<class M>() -> Status {
    PLE_CUDA_TRY(launch(mix_tokens_kernel<M>, shape, stream, args));
    return {};
  });
}

}  // namespace ple::kernels
