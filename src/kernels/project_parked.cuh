#pragma once

#include "kernels/project_slices.cuh"

// The end of a tile whose accumulators are parked in shared memory: one loop then serves all
// slices. Its code is run once, and fetching what is unrolled over them takes longer than the rest.

namespace ple::kernels {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The places of one thread of a warpgroup, and the scales that all of them read.
template <int kSlices, class T>
class ParkedSlices {
 public:
  static constexpr int kBytes =
      kSlices * (2 * kWarpgroupThreads * static_cast<int>(sizeof(float4) + sizeof(Vector4<T>)) +
                 kQuadThreads * static_cast<int>(sizeof(float4)));

  // park: kBytes of the warpgroup.
  __device__ explicit ParkedSlices(std::byte* park)
      : sums_(reinterpret_cast<float2*>(park)),
        scales_(reinterpret_cast<float4*>(sums_ + kSlices * 4 * kWarpgroupThreads)),
        highway_(reinterpret_cast<Vector4<T>*>(scales_ + kSlices * kQuadThreads)),
        thread_(static_cast<int>(threadIdx.x) % kWarpgroupThreads) {}

  // Sends for what the gates' sums are taken with; rows: the two of this lane in the highway.
  __device__ void ask(const ProjectArgs& args, const PleTiles& tiles, Slices slices,
                      const T* const (&rows)[2]) const {
    if (thread_ < slices.count * kQuadThreads) {
      const SlicePlace place(args.shape, tiles, slices.begin + thread_ / kQuadThreads);
      copy_async<sizeof(float4)>(shared_address(scales_ + thread_),
                                 args.gate_scale + place.channel());
    }
    SlicePlace place(args.shape, tiles, slices.begin);
#pragma unroll 1
    for (int i = 0; i < slices.count; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        copy_async<sizeof(Vector4<T>)>(shared_address(highway_ + at(i, half)),
                                       rows[half] + place.channel());
      }
      place.advance();
    }
  }
  __device__ void park(const float* sums) const {
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
#pragma unroll
      for (int pair = 0; pair < 4; ++pair) {  // as registers follow each other
        const float* from = sums + i * kSliceSums + 2 * pair;
        sums_[(4 * i + pair) * kWarpgroupThreads + thread_] = {from[0], from[1]};
      }
    }
  }
  __device__ float4 sums(int slice, int half) const {  // see accumulated
    const float2* from = sums_ + (4 * slice + half) * kWarpgroupThreads + thread_;
    const float2 low = from[0];
    const float2 high = from[2 * kWarpgroupThreads];
    return {low.x, low.y, high.x, high.y};
  }
  __device__ float4 highway(int slice, int half) const { return highway_[at(slice, half)].value(); }
  __device__ float4 scale(int slice) const {
    return scales_[slice * kQuadThreads + thread_ % kQuadThreads];
  }

 private:
  __device__ int at(int slice, int half) const {
    return (2 * slice + half) * kWarpgroupThreads + thread_;
  }

  float2* sums_;
  float4* scales_;
  Vector4<T>* highway_;
  int thread_;
};

// Takes in a tile's slices for both rows of a lane, of type T in the highway; park: shared memory
// that nobody else reads or writes meanwhile.
template <int kSlices, bool kPlain, class T>
__device__ void finish_parked(const ProjectArgs& args, const PleTiles& tiles, std::byte* park,
                              int meeting, const float* sums, Slices slices,
                              std::int64_t first_token, int token_count) {
  const ParkedSlices<kSlices, T> parked(park);
  if (args.highway != nullptr) {
    const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
    const std::int64_t last = args.token_capacity - 1;
    const auto* highway = static_cast<const T*>(args.highway);
    const T* const rows[2] = {highway + min(first_token, last) * width,
                              highway + min(first_token + 8, last) * width};
    parked.ask(args, tiles, slices, rows);
  }
  parked.park(sums);
  commit_copies();
  wait_copies<0>();
  meet<kWarpgroupThreads>(meeting);  // the scales are of other threads
  SlicePlace place(args.shape, tiles, slices.begin);
  const bool leaves_sums = threadIdx.x % kQuadThreads == 0 && args.sums.data != nullptr;
  int i = 0;
  if constexpr (kPlain) {  // without a branch, so that the sums of both rows overlap
    const int keys = tiles.key_group_count() * kGroupSlices;
    const std::int64_t stride = sums_per_token(tiles, kGroupSlices);
#pragma unroll 1
    for (; i < min(slices.count, keys - slices.begin); ++i) {
      const float4 scale = parked.scale(i);
      const std::int64_t at = key_sums_at(tiles, slices.begin + i) + first_token * stride;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4 highway = place.is_inside() ? parked.highway(i, half) : float4{};
        const ColumnSums sums = quad_sums(gate_sums(parked.sums(i, half), highway, scale));
        if (leaves_sums && first_token + 8 * half < token_count) {
          store_sums(args.sums, at + 8 * half * stride, sums);
        }
      }
      place.advance();
    }
#pragma unroll 1
    for (; i < slices.count; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t token = first_token + 8 * half;
        const bool is_token = token < token_count;
        const float sum =
            quad_sum(finish_plain_values(args, place, parked.sums(i, half), token, is_token));
        if (leaves_sums && is_token) {
          store_value_sum(args.sums, tiles, token, slices.begin + i - keys, sum);
        }
      }
      place.advance();
    }
  } else {
#pragma unroll 1
    for (; i < slices.count; ++i) {
      const float4 scale = parked.scale(i);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t token = first_token + 8 * half;
        const bool is_token = token < token_count;
        const ColumnSums slice_sums = quad_sums(finish_slice<kPlain>(
            args, place, parked.sums(i, half), parked.highway(i, half), scale, token, is_token));
        if (leaves_sums && is_token) {
          store_slice_sums(args.sums, tiles, token, slices.begin + i, slice_sums);
        }
      }
      place.advance();
    }
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

}  // namespace ple::kernels
