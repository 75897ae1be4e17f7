#include <algorithm>

#include "device/cuda_check.hpp"
#include "kernels/project_slices.cuh"

// The product for up to 64 tokens on Hopper: bound by the weights, which are split evenly over the
// multiprocessors, six or seven slices of 16 columns for each, and streamed once.

namespace ple::kernels {

namespace {

constexpr int kMaxSlices = 7;
constexpr int kColumns = kMaxSlices * kSliceColumns;
constexpr int kWeightBytes = kMaxSlices * kSliceTileBytes;
// Stages of weights on their way while the rows are gathered: as many as keep the memory busy,
// because the rows wait behind them.
constexpr int kEarlyFlight = 4;
constexpr int kThreads = kWarpgroupThreads + kWarpThreads;
constexpr int kMaxSharedBytes = 224 * 1024;
constexpr int kReady = 1;  // the barrier behind which there are the others
constexpr int kRowBytes = kMaxSlicedTokens * kTileRowBytes;
constexpr int kStageBytes = kRowBytes + kWeightBytes;
constexpr int kStages = (kMaxSharedBytes - kTileAlignment) / kStageBytes;
constexpr int kSharedBytes = kTileAlignment + kStages * kStageBytes;
static_assert(kMaxSlicedTokens == kWarpgroupRows);
static_assert(kRowBytes % kTileAlignment == 0 && kStageBytes % kTileAlignment == 0);

// full is of the weights; the rows come later.
struct Barriers : StageBarriers<kStages> {
  std::uint64_t rows[kStages];

  __device__ void init() {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], 1);
      barrier_init(&rows[stage], 1);
    }
    barrier_init_fence();
  }
};

// What the sums of all slices of both rows of a lane are taken with. It is read at once, so that
// its latency is paid once, and before it is needed.
template <class T>
struct GateInputs {
  Vector4<T> highway[2][kMaxSlices];
  float4 scale[kMaxSlices];

  __device__ float4 of(int half, int slice) const {
    Vector4<T> vector = highway[0][slice];
    if (half != 0) vector = highway[1][slice];
    return vector.value();
  }
  __device__ void load(const ProjectArgs& args, SlicePlace place) {
    const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
    const T* rows[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const std::int64_t last = args.token_capacity - 1;
      const std::int64_t token =
          accumulator_row() + 8 * row < last ? accumulator_row() + 8 * row : last;
      rows[row] = static_cast<const T*>(args.highway) + token * width;
    }
#pragma unroll
    for (int i = 0; i < kMaxSlices; ++i) {
      const std::int64_t channel = place.channel();
      scale[i] = load4(args.gate_scale + channel);
#pragma unroll
      for (int row = 0; row < 2; ++row) highway[row][i].load(rows[row] + channel);
      place.advance();
    }
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The weights of a tile: in each chunk, slices that follow each other. They never change, so they
// may be read before the step is known.
class SliceCopies {
 public:
  __device__ SliceCopies(const ProjectArgs& args, const PleTiles& tiles, Slices slices)
      : from_(reinterpret_cast<const std::byte*>(args.projection) +
              std::int64_t{slices.begin} * kSliceTileBytes),
        chunk_bytes_(tiles.projection_at(1, 0)),
        bytes_(static_cast<std::uint32_t>(slices.count) * kSliceTileBytes) {}

  __device__ void start(std::byte* to, int chunk, std::uint64_t* barrier) const {
    barrier_arrive_expecting(barrier, bytes_);
    bulk_copy(to, from_ + chunk * chunk_bytes_, bytes_, barrier);
  }

 private:
  const std::byte* from_;
  std::int64_t chunk_bytes_;
  std::uint32_t bytes_;
};

__device__ void produce(const ProjectArgs& args, const PleTiles& tiles, Barriers& barriers,
                        std::byte* stages, const SliceSplit& split) {
  const int first = static_cast<int>(blockIdx.x);
  int early = 0;  // chunks whose weights were asked for
  {
    const SliceCopies copies(args, tiles, split.of(first));
    for (; early < min(kStages, tiles.chunk_count); ++early) {
      if (early >= kEarlyFlight) barrier_wait(&barriers.full[early - kEarlyFlight], 0);
      copies.start(stages + early * kStageBytes + kRowBytes, early, &barriers.full[early]);
    }
  }
  wait_previous_kernel();
  start_next_kernel();
  const auto row_bytes =
      static_cast<std::uint32_t>((args.counts->token_count + 7) / 8 * 8) * kTileRowBytes;
  const EmbeddingRows rows(args, tiles, 0);
  StageCursor<kStages> at;
  for (int tile = first; tile < split.tile_count(); tile += static_cast<int>(gridDim.x)) {
    const SliceCopies copies(args, tiles, split.of(tile));
    for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
      std::byte* stage = stages + at.stage * kStageBytes;
      if (early == 0) {
        barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
        copies.start(stage + kRowBytes, chunk, &barriers.full[at.stage]);
      } else {
        --early;
      }
      std::uint64_t* arrived = &barriers.rows[at.stage];
      barrier_arrive_expecting(arrived, row_bytes);
      if (row_bytes != 0) {
        bulk_copy(stage, rows.from + chunk * rows.chunk_bytes, row_bytes, arrived);
      }
      at.advance();
    }
  }
}

// Multiplies all chunks of the block's slices.
__device__ void multiply(float (&sums)[kMaxSlices * kSliceSums], Barriers& barriers,
                         const std::byte* stages, int chunk_count, StageCursor<kStages>& at) {
  const bool is_leader = threadIdx.x == 0;
  int previous_stage = 0;
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    barrier_wait(&barriers.rows[at.stage], at.parity);
    const std::byte* stage = stages + at.stage * kStageBytes;
    start_chunk<kColumns>(sums, stage, stage + kRowBytes, chunk == 0);
    wgmma_wait<1>();  // the chunk before this one has been read
    if (chunk > 0 && is_leader) barrier_arrive(&barriers.empty[previous_stage]);
    previous_stage = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
  if (is_leader) barrier_arrive(&barriers.empty[previous_stage]);
}

// Takes in one row of every lane. All sums first, so that their shuffles overlap.
template <bool kPlain, class T>
__device__ void finish_rows(const ProjectArgs& args, const PleTiles& tiles,
                            const float (&sums)[kMaxSlices * kSliceSums],
                            const GateInputs<T>& inputs, Slices slices, int half, int token_count) {
  const int token = accumulator_row() + 8 * half;
  if (token / 8 * 8 >= token_count) return;  // no row of the warp is a token
  const bool is_token = token < token_count;
  ColumnSums slice_sums[kMaxSlices];
  SlicePlace place(args.shape, tiles, slices.begin);
#pragma unroll
  for (int i = 0; i < kMaxSlices; ++i) {
    if (i < slices.count) {
      slice_sums[i] = finish_slice<kPlain>(args, place, accumulated(sums + i * kSliceSums, half),
                                           inputs.of(half, i), inputs.scale[i], token, is_token);
    }
    place.advance();
  }
#pragma unroll
  for (int i = 0; i < kMaxSlices; ++i) slice_sums[i] = quad_sums(slice_sums[i]);
  if (!is_token || threadIdx.x % kQuadThreads != 0 || args.sums.data == nullptr) return;
#pragma unroll
  for (int i = 0; i < kMaxSlices; ++i) {
    if (i >= slices.count) break;
    store_slice_sums(args.sums, tiles, token, slices.begin + i, slice_sums[i]);
  }
}

template <bool kPlain, class T>
__device__ void consume(const ProjectArgs& args, const PleTiles& tiles, Barriers& barriers,
                        const std::byte* stages, const SliceSplit& split) {
  float sums[kMaxSlices * kSliceSums];
  StageCursor<kStages> at;
  for (int tile = static_cast<int>(blockIdx.x); tile < split.tile_count();
       tile += static_cast<int>(gridDim.x)) {
    const Slices slices = split.of(tile);
    const SlicePlace place(args.shape, tiles, slices.begin);
    GateInputs<T> inputs;  // no kernel of the step has written them yet
    if (args.highway != nullptr) inputs.load(args, place);
    wait_previous_kernel();
    start_next_kernel();  // not before: the next kernel may then read what the gather wrote
    const int token_count = args.counts->token_count;
    multiply(sums, barriers, stages, tiles.chunk_count, at);
#pragma unroll 1  // the code is run once, and must be fetched for it
    for (int half = 0; half < 2; ++half) {
      finish_rows<kPlain>(args, tiles, sums, inputs, slices, half, token_count);
    }
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <bool kPlain>
__global__ __launch_bounds__(kThreads, 1) void project_sliced_kernel(
    const __grid_constant__ ProjectArgs args, const __grid_constant__ SliceSplit split) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ Barriers barriers;
  std::byte* stages = aligned_stages(shared);
  const PleTiles tiles(args.shape);
  if (threadIdx.x < kWarpgroupThreads) {
    meet<kThreads>(kReady);
    if (args.highway_type == HighwayType::f32) {
      consume<kPlain, float>(args, tiles, barriers, stages, split);
    } else {
      consume<kPlain, std::uint16_t>(args, tiles, barriers, stages, split);
    }
  } else {
    const bool is_producer = threadIdx.x == kWarpgroupThreads;
    if (is_producer) barriers.init();
    __syncwarp();
    arrive<kThreads>(kReady);  // the weights do not wait for the consumers
    if (is_producer) produce(args, tiles, barriers, stages, split);
  }
#endif
}

template <bool kPlain>
Status project_with(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const SliceSplit split = SliceSplit::evenly(args, kMaxSlices);
  const int blocks = std::min(split.tile_count(), args.multiprocessor_count);
  const Launch shape{.grid = dim3(static_cast<unsigned>(blocks)),
                     .block_threads = kThreads,
                     .shared_bytes = kSharedBytes,
                     .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(project_sliced_kernel<kPlain>, shape, stream, args, split));
  return {};
}

}  // namespace

Status project_sliced_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  return is_plain(args) ? project_with<true>(args, is_overlapped, stream)
                        : project_with<false>(args, is_overlapped, stream);
}

}  // namespace ple::kernels
