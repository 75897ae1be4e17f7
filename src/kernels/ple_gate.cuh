#pragma once

#include "kernels/token_sums.cuh"

// The gate of one token and stream (specification A.5, steps 4 to 10), by one warp.

namespace ple::kernels {

struct Gate {
  float gamma = 0.0F;
  float q = 0.0F;  // 1 / root mean square of gamma * v
};

// Each to a few units in the last place: code that is run once must be fetched for it.
__device__ inline float inverse(float x) {
  float y = 0.0F;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float inverse_root(float x) {
  float y = 0.0F;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
__device__ inline float sigmoid(float x) {
  constexpr float kLog2E = 1.44269504F;
  float power = 0.0F;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-kLog2E * x));
  return inverse(1.0F + power);
}

__device__ inline float inverse_root_mean(float sum_of_squares, const PleShape& shape) {
  return inverse_root(
      __fmaf_rn(sum_of_squares, inverse(static_cast<float>(shape.hidden)), shape.eps));
}
// q of gamma * v, of which the sum of squares is given.
__device__ inline float q_of(float sum_of_squares, const PleShape& shape) {
  return inverse_root(
      __fmaf_rn(sum_of_squares, inverse(static_cast<float>(shape.hidden)), shape.eps_of_conv()));
}

// sigmoid(copysign(sqrt(max(|s|, 1e-6)), s)); NaN stays NaN.
__device__ inline float signed_gate_of_similarity(float s) {
  constexpr float kLeast = 1e-6F;
  const float magnitude = fabsf(s) < kLeast ? kLeast : fabsf(s);
  float root = 0.0F;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(magnitude));
  return sigmoid(copysignf(root, s));
}
// The same with a sign of zero for a zero.
__device__ inline float gate_of_similarity(float s) {
  return s == 0.0F ? 0.5F : signed_gate_of_similarity(s);
}

// The sums of a token over kStreams streams from first on, by one warp; every lane has them.
// Without values only the score is asked for.
template <int kStreams, bool kHasValues = true>
struct GateSums {
  float dot[kStreams] = {};
  float key[kStreams] = {};
  float highway[kStreams] = {};
  float value = 0.0F;  // of v^2

  __device__ GateSums(const PleShape& shape, const PleTiles& tiles, const TokenSums& sums,
                      std::int64_t token, int first) {
    if (sums.sums_per_group == 1) {
      add_groups<1>(shape, tiles, sums, token, first);
    } else {
      add_groups<kGroupSlices>(shape, tiles, sums, token, first);
    }
#pragma unroll
    for (int distance = kWarpThreads / 2; distance > 0; distance /= 2) {
#pragma unroll
      for (int i = 0; i < kStreams; ++i) {
        dot[i] += __shfl_xor_sync(kWholeWarp, dot[i], distance);
        key[i] += __shfl_xor_sync(kWholeWarp, key[i], distance);
        highway[i] += __shfl_xor_sync(kWholeWarp, highway[i], distance);
      }
      value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
  }

  // Of stream first + index: the normalised product of key and query.
  __device__ float score(const PleShape& shape, int index) const {
    float stream_dot = dot[0];
    float stream_key = key[0];
    float stream_highway = highway[0];
#pragma unroll
    for (int i = 1; i < kStreams; ++i) {
      stream_dot = index == i ? dot[i] : stream_dot;
      stream_key = index == i ? key[i] : stream_key;
      stream_highway = index == i ? highway[i] : stream_highway;
    }
    const float scale = inverse_root_mean(stream_key, shape) *
                        inverse_root_mean(stream_highway, shape) *
                        inverse_root(static_cast<float>(shape.hidden));
    return stream_dot * scale;
  }
  __device__ Gate gate(const PleShape& shape, int index) const {
    Gate gate;
    gate.gamma = gate_of_similarity(score(shape, index));
    gate.q = q_of(gate.gamma * gate.gamma * value, shape);
    return gate;
  }

 private:
  // Those of every 32nd group.
  template <int kParts>
  __device__ void add_groups(const PleShape& shape, const PleTiles& tiles, const TokenSums& sums,
                             std::int64_t token, int first) {
    // Turns whose loads overlap, as registers allow.
    constexpr int kTurns = kHasValues ? 1 : 2;
#pragma unroll kTurns
    for (int group = static_cast<int>(threadIdx.x) % kWarpThreads; group < tiles.groups_per_stream;
         group += kWarpThreads) {
#pragma unroll
      for (int i = 0; i < kStreams; ++i) {
        const int stream = min(first + i, shape.stream_count - 1);
        const float4 sum =
            group_sums<kParts>(sums, tiles, token, stream * tiles.groups_per_stream + group);
        dot[i] += sum.x;
        key[i] += sum.y;
        highway[i] += sum.z;
      }
      if constexpr (kHasValues) value += value_sum<kParts>(sums, tiles, token, group);
    }
  }
};

// q of a token in `reference`: of the rounded products gamma * v.
__device__ inline float q_from_values(const PleShape& shape, const std::uint16_t* token_values,
                                      float gamma) {
  float sum = 0.0F;
  for (int d = static_cast<int>(threadIdx.x) % kWarpThreads; d < shape.hidden; d += kWarpThreads) {
    const float gated = round_bf16(gamma * bf16_value(token_values[d]));
    sum = __fmaf_rn(gated, gated, sum);
  }
  return q_of(warp_sum(sum), shape);
}

}  // namespace ple::kernels
