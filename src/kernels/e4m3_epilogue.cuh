#pragma once

#include "kernels/project_slices.cuh"

// The end of the product with weights in E4M3, whose accumulators have tokens as columns.

namespace ple::kernels {

inline constexpr int kRowsAtOnce = 8;  // tokens of one matrix instruction's smallest width

// Eight tokens of a warp's slice, turned so that a quad of lanes has a token and each lane four
// columns of it.
struct alignas(16) Turned {
  static constexpr int kStride = kSliceColumns + 4;
  float columns[kRowsAtOnce * kStride];

  __device__ float4 turn(const float* sums) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    const int row = lane / kQuadThreads;
    float* first = columns + lane % kQuadThreads * 2 * kStride + row;
    __syncwarp();
    first[0] = sums[0];
    first[kStride] = sums[1];
    first[kRowsAtOnce] = sums[2];
    first[kStride + kRowsAtOnce] = sums[3];
    __syncwarp();
    return load4(columns + row * kStride + lane % kQuadThreads * 4);
  }
};

// Four values of a token, as the last pass reads them.
__device__ inline void store_values(const ProjectArgs& args, const SlicePlace& place,
                                    std::int64_t token, float4 values) {
  const std::int64_t at = token * args.shape.hidden + place.column();
  if (args.arithmetic == Arithmetic::float32) {
    store4(static_cast<float*>(args.values) + at, values);
  } else {
    store4(static_cast<std::uint16_t*>(args.values) + at, values);
  }
}

// Brings what finish_slice_tile reads of the highway into the L2 while the tile is multiplied.
template <class T>
__device__ void prefetch_highway(const ProjectArgs& args, const PleTiles& tiles, int slice,
                                 int first_token, int end_token) {
  const SlicePlace place(args.shape, tiles, slice);
  if (place.is_value()) return;
  const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
  const T* highway = static_cast<const T*>(args.highway) + place.channel();
#pragma unroll 1
  for (int token = first_token + static_cast<int>(threadIdx.x) % kWarpThreads; token < end_token;
       token += kWarpThreads) {
    prefetch_l2(highway + token * width);
  }
}

// Takes in a warp's slice of all tokens of a tile, batch by batch. The sums of the next batch then
// move up to the place of this one: one code serves all, and stays in the instruction cache.
template <class T, int kTokens>
__device__ void finish_slice_tile(const ProjectArgs& args, const PleTiles& tiles,
                                  float (&sums)[kTokens / 2], int slice, int first_token,
                                  int token_count, Turned& turned) {
  constexpr int kMost = (kTokens > kMaxSlicedTokens ? 16 : 8) / sizeof(T);
  constexpr int kBatch = kTokens / kRowsAtOnce < kMost ? kTokens / kRowsAtOnce : kMost;
  constexpr int kBatchSums = kBatch * 4;
  const SlicePlace place(args.shape, tiles, slice);
  const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
  const T* highway = static_cast<const T*>(args.highway) + place.channel();
  const float4 scale = load4(args.gate_scale + place.channel());
  const int row = static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads;
#pragma unroll 1
  for (int batch = 0; batch < kTokens; batch += kBatch * kRowsAtOnce) {
    const int first = first_token + batch + row;
    if (place.is_value()) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int token = first + i * kRowsAtOnce;
        const float4 values = turned.turn(sums + i * 4);
        if (token < token_count && place.is_inside()) store_values(args, place, token, values);
      }
    } else {
      // Step by step for all tokens, so that latencies overlap.
      Vector4<T> inputs[kBatch];
      ColumnSums columns[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        inputs[i].load(highway + min(first + i * kRowsAtOnce, args.token_capacity - 1) * width);
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const float4 product = turned.turn(sums + i * 4);
        const float4 keys = args.rounds_keys ? stored<std::uint16_t>(product) : product;
        columns[i] = place.is_inside() ? gate_sums(keys, inputs[i].value(), scale) : ColumnSums{};
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) columns[i] = quad_sums(columns[i]);
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const std::int64_t token = first + i * kRowsAtOnce;
        if (token < token_count && threadIdx.x % kQuadThreads == 0) {
          store_sums(args.sums, token * tiles.group_count * kGroupSlices + slice, columns[i]);
        }
      }
    }
#pragma unroll
    for (int i = 0; i + kBatchSums < kTokens / 2; ++i) sums[i] = sums[i + kBatchSums];
  }
}

}  // namespace ple::kernels
