#pragma once

#include "kernels/token_sums.cuh"

// The end of the product, for one token and one slice of columns: a quad of lanes holds the slice's
// sums, lane q of the quad columns 4q .. 4q + 3.

namespace ple::kernels {

inline constexpr int kQuadThreads = 4;
inline constexpr int kSliceSums = kSliceColumns / 2;  // accumulators of a lane, two rows of four

template <int kDistance = 1>
__device__ inline float quad_sum(float value) {
  value += __shfl_xor_sync(kWholeWarp, value, kDistance);
  return value + __shfl_xor_sync(kWholeWarp, value, 2 * kDistance);
}

// Written with fused operations, so that every form of the kernels rounds alike.
__device__ inline float add_products(float4 a, float4 b, float sum) {
  return __fmaf_rn(a.w, b.w, __fmaf_rn(a.z, b.z, __fmaf_rn(a.y, b.y, __fmaf_rn(a.x, b.x, sum))));
}
__device__ inline float4 multiply(float4 a, float4 b) {
  return {__fmul_rn(a.x, b.x), __fmul_rn(a.y, b.y), __fmul_rn(a.z, b.z), __fmul_rn(a.w, b.w)};
}

// The accumulators of a warp's 16 rows and one slice: column 8j + 2q + b of row r + 8 * half is
// accumulator [4 * j + 2 * half + b].
__device__ inline float4 accumulated(const float* slice, int half) {
  return half == 0 ? float4{slice[0], slice[1], slice[4], slice[5]}
                   : float4{slice[2], slice[3], slice[6], slice[7]};
}

// Sums of one token and slice over this lane's columns.
__device__ inline ColumnSums gate_sums(float4 k, float4 highway, float4 scale) {
  return {.dot = add_products(multiply(k, scale), highway, 0.0F),
          .key = add_products(k, k, 0.0F),
          .highway = add_products(highway, highway, 0.0F)};
}
__device__ inline ColumnSums value_sums(float4 v) { return {.dot = add_products(v, v, 0.0F)}; }

template <int kDistance = 1>
__device__ inline ColumnSums quad_sums(const ColumnSums& lane) {
  return {quad_sum<kDistance>(lane.dot), quad_sum<kDistance>(lane.key),
          quad_sum<kDistance>(lane.highway)};
}

// As a tensor of T keeps it.
template <class T>
__device__ inline float4 stored(float4 v) {
  if constexpr (sizeof(T) == 4) return v;
  return {round_bf16(v.x), round_bf16(v.y), round_bf16(v.z), round_bf16(v.w)};
}

// Four neighbouring columns of the product, with their bias. kPlain: there is none, and no keys are
// rounded; known when the kernel is compiled, so that the slices' sums overlap.
template <bool kPlain = false>
__device__ inline float4 with_bias(const ProjectArgs& args, int stream, int column, float4 sums) {
  if (kPlain || args.bias == nullptr) return sums;
  const float4 bias = load4(args.bias + std::int64_t{stream} * args.shape.hidden + column);
  return {sums.x + bias.x, sums.y + bias.y, sums.z + bias.z, sums.w + bias.w};
}
// The same of keys of which sums are taken.
template <bool kPlain>
__device__ inline float4 summed_keys(const ProjectArgs& args, int stream, int column, float4 sums) {
  const float4 keys = with_bias<kPlain>(args, stream, column, sums);
  return !kPlain && args.rounds_keys ? stored<std::uint16_t>(keys) : keys;
}

// A group of keys or values: its stream and this lane's first column in it.
struct GroupPlace {
  int stream;
  int column;
  __device__ GroupPlace(const PleTiles& tiles, int group)
      : stream(group / tiles.groups_per_stream),
        column((group - stream * tiles.groups_per_stream) * kGroupColumns +
               static_cast<int>(threadIdx.x) % kQuadThreads * 4) {}
};

__device__ inline void add(ColumnSums& sums, const ColumnSums& slice) {
  sums.dot += slice.dot;
  sums.key += slice.key;
  sums.highway += slice.highway;
}

// The sums of a group of keys of one token.
template <bool kPlain, class T>
__device__ inline ColumnSums key_group(const ProjectArgs& args, const GroupPlace& place,
                                       const float* group, int half, std::int64_t token) {
  const int hidden = args.shape.hidden;
  const std::int64_t last = args.token_capacity - 1;
  const std::int64_t row = (token < last ? token : last) * args.shape.stream_count + place.stream;
  const T* highway = static_cast<const T*>(args.highway) + row * hidden;
  const float* scales = args.gate_scale + place.stream * hidden;
  Vector4<T> r[kGroupSlices];
  float4 scale[kGroupSlices];
#pragma unroll
  for (int i = 0; i < kGroupSlices; ++i) {  // all at once, so that the latency is paid once
    const int column = place.column + i * kSliceColumns;
    const int existing = column < hidden ? column : 0;
    r[i].load(highway + existing);
    scale[i] = load4(scales + existing);
  }
  ColumnSums sums;
#pragma unroll
  for (int i = 0; i < kGroupSlices; ++i) {
    const int column = place.column + i * kSliceColumns;
    const bool is_inside = column < hidden;
    const float4 keys = summed_keys<kPlain>(args, place.stream, is_inside ? column : 0,
                                            accumulated(group + i * kSliceSums, half));
    add(sums, quad_sums(is_inside ? gate_sums(keys, r[i].value(), scale[i]) : ColumnSums{}));
  }
  return sums;
}

// Stores a group of values, or in `reference` of keys, of one token; the sums of the values.
template <bool kPlain, class T>
__device__ inline ColumnSums store_group(const ProjectArgs& args, const GroupPlace& place,
                                         const float* group, int half, T* row, bool is_token) {
  ColumnSums sums;
#pragma unroll
  for (int i = 0; i < kGroupSlices; ++i) {
    const int column = place.column + i * kSliceColumns;
    const bool is_inside = column < args.shape.hidden;
    const float4 product = accumulated(group + i * kSliceSums, half);
    const float4 v =
        stored<T>(with_bias<kPlain>(args, place.stream, is_inside ? column : 0, product));
    if (is_token && is_inside) store4(row + column, v);
    add(sums, quad_sums(is_inside ? value_sums(v) : ColumnSums{}));
  }
  return sums;
}

// Takes in one group of both rows of a lane, first_token and eight on; [kGroupColumns / 2]
// accumulators.
template <bool kPlain = false>
__device__ inline void finish_group(const ProjectArgs& args, const PleTiles& tiles,
                                    const float* group, int group_index, std::int64_t first_token,
                                    int token_count) {
  const GroupPlace place(tiles, group_index);
  const int hidden = args.shape.hidden;
  const bool is_value = place.stream == args.shape.stream_count;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::int64_t token = first_token + 8 * half;
    const bool is_token = token < token_count;
    ColumnSums sums;
    if (is_value && args.arithmetic == Arithmetic::float32) {
      float* row = static_cast<float*>(args.values) + token * hidden;
      sums = store_group<kPlain>(args, place, group, half, row, is_token);
    } else if (is_value) {
      auto* row = static_cast<std::uint16_t*>(args.values) + token * hidden;
      sums = store_group<kPlain>(args, place, group, half, row, is_token);
    } else if (args.arithmetic == Arithmetic::reference) {
      auto* row = args.keys + (token * args.shape.stream_count + place.stream) * hidden;
      store_group<kPlain>(args, place, group, half, row, is_token);
    } else if (args.highway_type == HighwayType::f32) {
      sums = key_group<kPlain, float>(args, place, group, half, token);
    } else {
      sums = key_group<kPlain, std::uint16_t>(args, place, group, half, token);
    }
    if (is_token && threadIdx.x % kQuadThreads == 0 && args.sums.data != nullptr) {
      store_sums(args.sums, token * tiles.group_count + group_index, sums);
    }
  }
}

}  // namespace ple::kernels
