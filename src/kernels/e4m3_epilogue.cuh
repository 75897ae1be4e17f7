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

// A lane's sum and its neighbour's, of one of two values: the lanes of a pair take one each.
__device__ inline float exchanged_sum(bool takes_second, float first, float second, int distance) {
  const float sent = takes_second ? first : second;
  return (takes_second ? second : first) + __shfl_xor_sync(kWholeWarp, sent, distance);
}
__device__ inline ColumnSums exchanged_sums(bool takes_second, const ColumnSums& first,
                                            const ColumnSums& second, int distance) {
  return {exchanged_sum(takes_second, first.dot, second.dot, distance),
          exchanged_sum(takes_second, first.key, second.key, distance),
          exchanged_sum(takes_second, first.highway, second.highway, distance)};
}
// What quad_sums gives of four tokens, of token q in lane q of the quad.
__device__ inline ColumnSums quad_sums_of_four(const ColumnSums* lane_sums) {
  const bool is_odd = threadIdx.x % 2 != 0;
  return exchanged_sums(threadIdx.x % kQuadThreads >= 2,
                        exchanged_sums(is_odd, lane_sums[0], lane_sums[1], 1),
                        exchanged_sums(is_odd, lane_sums[2], lane_sums[3], 1), 2);
}

// Takes in a warp's slice of all tokens of a tile, batch by batch. The sums of the next batch then
// move up to the place of this one: one code serves all, and stays in the instruction cache.
template <class T, int kTokens>
class SliceEnd {
 public:
  __device__ SliceEnd(const ProjectArgs& args, const PleTiles& tiles, int slice, int first_token,
                      int token_count)
      : args_(args),
        place_(args.shape, tiles, slice),
        width_(args.shape.stream_count * args.shape.hidden),
        sums_at_(key_sums_at(tiles, slice)),
        sums_stride_(sums_per_token(tiles, kGroupSlices)),
        first_(first_token + static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads),
        token_count_(token_count) {}

  // Asks for the highway of the first batch: before the sums are complete.
  __device__ void load() {
    if (place_.is_value()) return;
    scale_ = load4(args_.gate_scale + place_.channel());
    load_batch(0);
  }
  __device__ void take(float (&sums)[kTokens / 2], Turned& turned) {
#pragma unroll 1
    for (int batch = 0; batch < kTokens; batch += kBatch * kRowsAtOnce) {
      if (place_.is_value()) {
        take_values(sums, batch, turned);
      } else {
        take_keys(sums, batch, turned);
      }
#pragma unroll
      for (int i = 0; i + kBatchSums < kTokens / 2; ++i) sums[i] = sums[i + kBatchSums];
    }
  }

 private:
  static constexpr int kMost = (kTokens > kMaxSlicedTokens ? 16 : 8) / sizeof(T);
  static constexpr int kBatch = kTokens / kRowsAtOnce < kMost ? kTokens / kRowsAtOnce : kMost;
  static constexpr int kBatchSums = kBatch * 4;

  __device__ void load_batch(int batch) {
    if (!place_.is_inside()) return;  // zeros, as the weights
    const T* highway = static_cast<const T*>(args_.highway) + place_.channel();
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int token = min(first_ + batch + i * kRowsAtOnce, args_.token_capacity - 1);
      inputs_[i].load(highway + std::int64_t{token} * width_);
    }
  }
  __device__ void take_values(const float* sums, int batch, Turned& turned) const {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int token = first_ + batch + i * kRowsAtOnce;
      const float4 values = turned.turn(sums + i * 4);
      if (token < token_count_ && place_.is_inside()) store_values(args_, place_, token, values);
    }
  }
  // Step by step for all tokens, so that latencies overlap.
  __device__ void take_keys(const float* sums, int batch, Turned& turned) {
    ColumnSums columns[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const float4 product = turned.turn(sums + i * 4);
      const float4 keys = args_.rounds_keys ? stored<std::uint16_t>(product) : product;
      columns[i] = gate_sums(keys, inputs_[i].value(), scale_);
    }
    load_batch(batch + kBatch * kRowsAtOnce);  // of tokens that exist, whether or not it is used
    const int lane = static_cast<int>(threadIdx.x) % kQuadThreads;
    if constexpr (kBatch % kQuadThreads == 0) {
#pragma unroll
      for (int i = 0; i < kBatch; i += kQuadThreads) {
        store(batch + (i + lane) * kRowsAtOnce, quad_sums_of_four(columns + i));
      }
    } else {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const ColumnSums sums = quad_sums(columns[i]);
        if (lane == 0) store(batch + i * kRowsAtOnce, sums);
      }
    }
  }
  __device__ void store(int token_at, const ColumnSums& sums) const {
    const int token = first_ + token_at;
    if (token >= token_count_) return;
    store_sums(args_.sums, std::int64_t{token} * sums_stride_ + sums_at_, sums);
  }

  const ProjectArgs& args_;
  SlicePlace place_;
  int width_;
  int sums_at_;
  int sums_stride_;
  int first_;  // this lane's first token
  int token_count_;
  float4 scale_{};
  Vector4<T> inputs_[kBatch];
};

}  // namespace ple::kernels
