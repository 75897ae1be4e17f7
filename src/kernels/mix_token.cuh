#pragma once

#include "kernels/mix.cuh"

// The last pass for one token at a time.

namespace ple::kernels {

// A token's place in its sequence.
struct TokenPlace {
  int span_index;
  PleSpan span;

  __device__ TokenPlace(const PleStepView& step, int span_capacity, int token) {
    span_index = step.token_span[token];
    // While decoding, a token's span has its index: then it need not be waited for.
    span = step.spans[token < span_capacity ? token : 0];
    if (span_index >= 0 && span_index != token) span = step.spans[span_index];
  }
};

// One token of a lane's channels; wait() returns when the product of the step's tokens can be read,
// and what it does not write is read before. The gates of the taps, this token's the last, go
// through shared memory, of which each warp has its own part, because the code that makes one of
// sums shall stand here only once.
template <class M, class Wait>
__device__ void mix_token(const MixArgs& args, const MixLane<M>& lane,
                          const LaneConv<M::kTaps>& conv, const Vector8<std::uint16_t>& norm,
                          const TokenPlace& place, int token, Gate (&gates)[M::kTaps],
                          const Wait& wait) {
  constexpr int kPast = M::kTaps - 1;
  const int index = token - place.span.token_begin;
  const auto highway = lane.highway_of(token);
  typename MixLane<M>::Values values[M::kTaps];
#pragma unroll
  for (int tap = 0; tap < kPast; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before < 0) lane.load_ring(place.span, before, values[tap], gates[tap]);
  }
  wait();
#pragma unroll
  for (int tap = 0; tap < M::kTaps; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before >= 0) values[tap] = lane.values_of(place.span.token_begin + before);
  }
#pragma unroll 1
  for (int tap = 0; tap < M::kTaps; ++tap) {
    const int before = index - (kPast - tap) * args.shape.dilation;
    if (before >= 0) gates[tap] = lane.gate_of(place.span.token_begin + before);
  }
  __syncwarp();

  float out[kLaneChannels];
#pragma unroll
  for (int i = 0; i < kLaneChannels; ++i) {
    const float scale = args.vectors.norm_offset + norm[i];
    float y = 0.0F;
#pragma unroll
    for (int tap = 0; tap < M::kTaps; ++tap) {
      y = __fmaf_rn(lane.weight(conv.at(tap, i), scale),
                    lane.input(values[tap][i], gates[tap], scale), y);
    }
    out[i] = lane.mixed(highway[i], values[kPast][i], gates[kPast], y);
  }
  if (auto* output = lane.output_at(token); output != nullptr) {
    *output = MixLane<M>::Highways::of(out);
  }
  lane.store_ring(place.span, index, values[kPast], gates[kPast]);
  __syncwarp();
}

}  // namespace ple::kernels
