#pragma once

#include <algorithm>

#include "kernels/project_wgmma.cuh"

// What the products that split their weights by slices of 16 columns share.

namespace ple::kernels {

struct Slices {
  int begin;
  int count;
};

// See finish_slice.
inline bool is_plain(const ProjectArgs& args) {
  return args.arithmetic == Arithmetic::mixed && args.bias == nullptr && !args.rounds_keys;
}

// How tiles share the slices: each has up to `most`, and where that is possible every
// multiprocessor has one.
class SliceSplit {
 public:
  __host__ static SliceSplit evenly(const ProjectArgs& args, int most) {
    const int slices = (args.group_end - args.group_begin) * kGroupSlices;
    const int least = (slices + most - 1) / most;
    return {args, std::max(least, std::min(slices, args.multiprocessor_count))};
  }
  __host__ __device__ SliceSplit(const ProjectArgs& args, int tile_count)
      : tile_count_(tile_count),
        begin_(args.group_begin * kGroupSlices),
        each_((args.group_end - args.group_begin) * kGroupSlices / tile_count),
        more_((args.group_end - args.group_begin) * kGroupSlices % tile_count) {}

  __host__ __device__ int tile_count() const { return tile_count_; }
  __device__ Slices of(int tile) const {
    return {begin_ + tile * each_ + min(tile, more_), each_ + (tile < more_ ? 1 : 0)};
  }

 private:
  int tile_count_;
  int begin_;
  int each_;
  int more_;  // tiles with one slice more
};

// Where a lane's four columns of a slice stand; slices follow each other through the streams, the
// values last.
class SlicePlace {
 public:
  __device__ SlicePlace(const PleShape& shape, const PleTiles& tiles, int slice,
                        int quad_lane = static_cast<int>(threadIdx.x) % kQuadThreads)
      : quad_lane_(quad_lane),
        hidden_(shape.hidden),
        stream_count_(shape.stream_count),
        stream_slices_(tiles.groups_per_stream * kGroupSlices),
        stream_(slice / stream_slices_),
        in_stream_(slice - stream_ * stream_slices_) {}

  __device__ void advance() {
    if (++in_stream_ < stream_slices_) return;
    in_stream_ = 0;
    ++stream_;
  }
  __device__ int stream() const { return stream_; }
  __device__ bool is_value() const { return stream_ >= stream_count_; }
  // Of the layer, not the padding of a stream's last group.
  __device__ bool is_inside() const { return column() < hidden_; }
  __device__ int column() const { return in_stream_ * kSliceColumns + quad_lane_ * 4; }
  // In [stream_count, hidden]; a channel that exists, whatever the slice is.
  __device__ std::int64_t channel() const {
    return is_value() || !is_inside() ? 0 : std::int64_t{stream_} * hidden_ + column();
  }

 private:
  int quad_lane_;
  int hidden_;
  int stream_count_;
  int stream_slices_;
  int stream_;
  int in_stream_;
};

// Takes in one slice of values of one token in mixed arithmetic, without a bias; the lane's sum of
// their squares. The padding's weights are zero.
__device__ inline float finish_plain_values(const ProjectArgs& args, const SlicePlace& place,
                                            float4 accumulators, std::int64_t token,
                                            bool is_token) {
  const float4 values = stored<std::uint16_t>(accumulators);
  auto* row = static_cast<std::uint16_t*>(args.values) + token * args.shape.hidden;
  if (is_token && place.is_inside()) store4(row + place.column(), values);
  return add_products(values, values, 0.0F);
}

// Takes in one slice of one token. kPlain: in mixed arithmetic, without a bias or rounded keys,
// which is known when the kernel is compiled, because the code is run once and must be fetched for
// it.
template <bool kPlain>
__device__ inline ColumnSums finish_slice(const ProjectArgs& args, const SlicePlace& place,
                                          float4 accumulators, float4 highway, float4 scale,
                                          std::int64_t token, bool is_token) {
  if constexpr (kPlain) {
    if (!place.is_value()) {
      return gate_sums(accumulators, place.is_inside() ? highway : float4{}, scale);
    }
    return {.dot = finish_plain_values(args, place, accumulators, token, is_token)};
  }
  if (!place.is_inside()) return {};
  const float4 product = with_bias(args, place.stream(), place.column(), accumulators);
  if (place.is_value() && args.arithmetic == Arithmetic::float32) {
    float* row = static_cast<float*>(args.values) + token * args.shape.hidden;
    if (is_token) store4(row + place.column(), product);
    return value_sums(product);
  }
  const float4 rounded = stored<std::uint16_t>(product);
  if (place.is_value()) {
    auto* row = static_cast<std::uint16_t*>(args.values) + token * args.shape.hidden;
    if (is_token) store4(row + place.column(), rounded);
    return value_sums(rounded);
  }
  if (args.arithmetic == Arithmetic::reference) {
    std::uint16_t* row = args.keys + token * args.shape.stream_count * args.shape.hidden;
    if (is_token) store4(row + place.channel(), rounded);
    return {};
  }
  return gate_sums(args.rounds_keys ? rounded : product, highway, scale);
}

}  // namespace ple::kernels
