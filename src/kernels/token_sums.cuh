#pragma once

#include "kernels/device_math.cuh"
#include "kernels/ple_stages_cuda.hpp"

// How TokenSums are written, where a product ends, and read, where a gate is made.

namespace ple::kernels {

// The sums of a token's slices of values, [kGroupSlices, groups_per_stream].
__device__ inline float* value_sums_of(const TokenSums& sums, const PleTiles& tiles,
                                       std::int64_t token) {
  return reinterpret_cast<float*>(sums.data + token * sums_per_token(tiles, kGroupSlices) +
                                  tiles.key_group_count() * kGroupSlices);
}

// at: in TokenSums::data.
__device__ inline void store_sums(const TokenSums& sums, std::int64_t at, const ColumnSums& value) {
  *reinterpret_cast<float4*>(sums.data + at) = {value.dot, value.key, value.highway, 0.0F};
}
// Where those of a slice of keys are among those of a token.
__device__ inline int key_sums_at(const PleTiles& tiles, int slice) {
  return slice % kGroupSlices * tiles.key_group_count() + slice / kGroupSlices;
}
// Of a slice of values, counted from the first of these.
__device__ inline void store_value_sum(const TokenSums& sums, const PleTiles& tiles,
                                       std::int64_t token, int value_slice, float sum) {
  value_sums_of(
      sums, tiles,
      token)[value_slice % kGroupSlices * tiles.groups_per_stream + value_slice / kGroupSlices] =
      sum;
}
// Of a slice of either.
__device__ inline void store_slice_sums(const TokenSums& sums, const PleTiles& tiles,
                                        std::int64_t token, int slice, const ColumnSums& value) {
  const int value_slice = slice - tiles.key_group_count() * kGroupSlices;
  if (value_slice < 0) {
    store_sums(sums, token * sums_per_token(tiles, kGroupSlices) + key_sums_at(tiles, slice),
               value);
  } else {
    store_value_sum(sums, tiles, token, value_slice, value.dot);
  }
}

// The sums of one group of a token, which has kParts of them; where it has several, one of keys.
// Without a branch, so that what a lane reads of several groups is on its way at once.
template <int kParts>
__device__ inline float4 group_sums(const TokenSums& sums, const PleTiles& tiles,
                                    std::int64_t token, int group) {
  const auto* parts =
      reinterpret_cast<const float4*>(sums.data) + token * sums_per_token(tiles, kParts) + group;
  if constexpr (kParts == 1) return parts[0];
  float4 total{};
#pragma unroll
  for (int i = 0; i < kParts; ++i) {
    const float4 part = parts[i * tiles.key_group_count()];
    total.x += part.x;
    total.y += part.y;
    total.z += part.z;
  }
  return total;
}
// That of one group of values.
template <int kParts>
__device__ inline float value_sum(const TokenSums& sums, const PleTiles& tiles, std::int64_t token,
                                  int group) {
  if constexpr (kParts == 1) {
    return group_sums<1>(sums, tiles, token, tiles.key_group_count() + group).x;
  } else {
    const float* parts = value_sums_of(sums, tiles, token) + group;
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kParts; ++i) total += parts[i * tiles.groups_per_stream];
    return total;
  }
}
__device__ inline float value_sum(const TokenSums& sums, const PleTiles& tiles, std::int64_t token,
                                  int group) {
  return sums.sums_per_group == 1 ? value_sum<1>(sums, tiles, token, group)
                                  : value_sum<kGroupSlices>(sums, tiles, token, group);
}

}  // namespace ple::kernels
