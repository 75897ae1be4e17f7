#include <algorithm>

#include "device/cuda_check.hpp"
#include "kernels/project_slices.cuh"

// The product for up to 8 tokens on Hopper: bound by the weights, which are split evenly over the
// multiprocessors, six or seven slices of 16 columns for each, and streamed once. The weights are
// the rows of the matrix product and the tokens its columns, so that a warp has one slice, and the
// end of the kernel, whose code is run once and must be fetched for it, is that of one slice.

namespace ple::kernels {

namespace {

constexpr int kConsumers = 2;  // warpgroups, a slice for each warp
constexpr int kConsumerSlices = kWarpgroupThreads / kWarpThreads;
constexpr int kMaxSlices = kConsumers * kConsumerSlices;
constexpr int kConsumerThreads = kConsumers * kWarpgroupThreads;
constexpr int kThreads = kConsumerThreads + kWarpThreads;
constexpr int kReady = 1;  // the barrier behind which there are the others
// Weights on their way in a block with a slice less than others: five chunks of six slices, fewer
// than its ring has, so that it does not end before them.
constexpr int kShortFlightBytes = 5 * 6 * kSliceTileBytes;
constexpr int kMaxStages = 18;
constexpr int kSharedBytes = 224 * 1024;

// kRows: tokens that lie in a chunk of the embeddings; wgmma reads kFewProductTokens, whatever the
// bytes behind those hold. Memory: the ring, then the rows of all chunks.
template <int kRows, bool kPlain_>
struct Form {
  static constexpr bool kPlain = kPlain_;  // see finish_slice
  // Chunks of weights on their way until the ring is full: as many as keep the memory busy, because
  // the rows wait behind them.
  static constexpr int kEarlyFlight = kRows == 1 ? 6 : 5;
  static constexpr int kChunkRowBytes = kRows * kTileRowBytes;
  static constexpr int kRowBytes =
      (kFewProductChunks - 1) * kChunkRowBytes + kFewProductTokens * kTileRowBytes;
  static constexpr int kRingBytes =
      (kSharedBytes - kTileAlignment - kRowBytes) / kTileAlignment * kTileAlignment;
  static_assert(kEarlyFlight <= kRingBytes / (kMaxSlices * kSliceTileBytes));

  static constexpr int stage_count(int slice_count) {
    const int fitting = kRingBytes / (slice_count * kSliceTileBytes);
    return fitting < kMaxStages ? fitting : kMaxStages;
  }
  // wgmma reads kMaxSlices of a stage, however many there are.
  static constexpr bool reads_what_it_has() {
    for (int slices = 1; slices <= kMaxSlices; ++slices) {
      const int behind_last_stage = kMaxSlices - slices;
      const int read = (stage_count(slices) * slices + behind_last_stage) * kSliceTileBytes;
      if (read > kRingBytes + kRowBytes) return false;
    }
    return true;
  }
};

// Stages of the slices of a block, in each of which a chunk of them.
struct Ring {
  int stage_bytes;
  int stage_count;
  template <class F>
  __device__ static Ring of(int slice_count) {
    return {slice_count * kSliceTileBytes, F::stage_count(slice_count)};
  }
};

struct Cursor {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance(const Ring& ring) {
    if (++stage < ring.stage_count) return;
    stage = 0;
    parity ^= 1;
  }
};

// full is of the weights.
struct Barriers : StageBarriers<kMaxStages> {
  std::uint64_t rows;

  __device__ void init() {
#pragma unroll 1
    for (int stage = 0; stage < kMaxStages; ++stage) {
      barrier_init(&full[stage], 1);
      barrier_init(&empty[stage], kConsumers);
    }
    barrier_init(&rows, 1);
    barrier_init_fence();
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Where a block's parts of the shared memory are.
struct Shared {
  Barriers* barriers;
  std::byte* stages;
  std::byte* rows;
};

template <class F>
__device__ void bring_rows(const ProjectArgs& args, const PleTiles& tiles, const Shared& shared) {
  const auto bytes = static_cast<std::uint32_t>(tiles.chunk_count * F::kChunkRowBytes);
  barrier_arrive_expecting(&shared.barriers->rows, bytes);
  bulk_copy(shared.rows, args.embeddings, bytes, &shared.barriers->rows);
}

// Weights never change, so that a ring full of them is read before the step is known.
template <class F>
__device__ void produce(const ProjectArgs& args, const PleTiles& tiles, const Shared& shared,
                        const SliceSplit& split, const Ring& ring) {
  Barriers& barriers = *shared.barriers;
  const int first = static_cast<int>(blockIdx.x);
  const bool is_short = split.of(first).count < split.of(0).count;
  int flight = F::kEarlyFlight;
  int begun = 0;
  int arrived = 0;
  Cursor at;
  Cursor arriving;
#pragma unroll 1
  for (int tile = first; tile < split.tile_count(); tile += static_cast<int>(gridDim.x)) {
    const Slices slices = split.of(tile);
    const auto bytes = static_cast<std::uint32_t>(slices.count) * kSliceTileBytes;
    const std::byte* from = reinterpret_cast<const std::byte*>(args.projection) +
                            std::int64_t{slices.begin} * kSliceTileBytes;
#pragma unroll 1
    for (int chunk = 0; chunk < tiles.chunk_count; ++chunk, ++begun) {
      if (begun == ring.stage_count) {
        flight = ring.stage_count;
        if (is_short) flight = min(flight, kShortFlightBytes / ring.stage_bytes);
      }
      if (begun >= ring.stage_count) barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
#pragma unroll 1
      for (; arrived <= begun - flight; ++arrived, arriving.advance(ring)) {
        barrier_wait(&barriers.full[arriving.stage], arriving.parity);
      }
      std::uint64_t* full = &barriers.full[at.stage];
      barrier_arrive_expecting(full, bytes);
      bulk_copy(shared.stages + at.stage * ring.stage_bytes, from, bytes, full);
      from += tiles.projection_at(1, 0);
      at.advance(ring);
    }
  }
}

// Multiplies all chunks of the warpgroup's slices. It reads stages of kConsumerSlices slices; those
// behind the block's are nobody's.
template <class F>
__device__ void multiply(float (&sums)[4], const Shared& shared, const Ring& ring, int chunk_count,
                         Cursor& at) {
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  const auto consumer = threadIdx.x / kWarpgroupThreads;
  const std::uint32_t weights =
      operand_begin(shared_address(shared.stages) + consumer * kConsumerSlices * kSliceTileBytes);
  std::uint32_t tokens = operand_begin(shared_address(shared.rows));
  int previous_stage = -1;
#pragma unroll 1
  for (int chunk = 0; chunk < chunk_count; ++chunk, tokens += F::kChunkRowBytes >> 4) {
    barrier_wait(&shared.barriers->full[at.stage], at.parity);
    const std::uint32_t stage = weights + at.stage * (ring.stage_bytes >> 4);
    start_chunk<kFewProductTokens>(sums, stage, tokens, chunk == 0);
    wgmma_wait<1>();  // the chunk before this one has been read
    if (previous_stage >= 0 && is_leader) barrier_arrive(&shared.barriers->empty[previous_stage]);
    previous_stage = at.stage;
    at.advance(ring);
  }
  wgmma_wait<0>();
  if (is_leader) barrier_arrive(&shared.barriers->empty[previous_stage]);
}

// A lane's place in its warp's slice. Two neighbours, four lanes apart, have two columns of two
// tokens, and exchange them, so that each has four columns of one; a quad has lanes 8 apart.
class LanePlace {
 public:
  __device__ int token() const { return lane_ % kNeighbour * 2 + (is_second() ? 1 : 0); }
  __device__ int quad_lane() const { return lane_ / kQuadDistance; }
  __device__ float4 exchanged(const float (&sums)[4]) const {
    const float x = other(is_second() ? sums[0] : sums[1]);
    const float y = other(is_second() ? sums[2] : sums[3]);
    return is_second() ? float4{x, sums[1], y, sums[3]} : float4{sums[0], x, sums[2], y};
  }
  static constexpr int kQuadDistance = kWarpThreads / kQuadThreads;

 private:
  static constexpr int kNeighbour = 4;

  __device__ bool is_second() const { return lane_ % kQuadDistance >= kNeighbour; }
  __device__ static float other(float value) {
    return __shfl_xor_sync(kWholeWarp, value, kNeighbour);
  }

  int lane_ = static_cast<int>(threadIdx.x) % kWarpThreads;
};

template <class F, class T>
__device__ void consume(const ProjectArgs& args, const PleTiles& tiles, const Shared& shared,
                        const SliceSplit& split, const Ring& ring) {
  const LanePlace lane;
  const int token = lane.token();
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  Cursor at;
#pragma unroll 1
  for (int tile = static_cast<int>(blockIdx.x); tile < split.tile_count();
       tile += static_cast<int>(gridDim.x)) {
    const Slices slices = split.of(tile);
    const int slice = slices.begin + warp;
    const SlicePlace place(args.shape, tiles, slice, lane.quad_lane());
    Vector4<T> highway;  // read at once: no kernel of the step has written it yet
    float4 scale{};
    if (args.highway != nullptr) {
      const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
      const std::int64_t row = min(token, args.token_capacity - 1) * width;
      highway.load(static_cast<const T*>(args.highway) + row + place.channel());
      scale = load4(args.gate_scale + place.channel());
    }
    wait_previous_kernel();
    start_next_kernel();  // not before: the next kernel may then read what the gather wrote
    if (threadIdx.x == 0 && tile == static_cast<int>(blockIdx.x))
      bring_rows<F>(args, tiles, shared);
    const bool is_token = token < args.counts->token_count;
    barrier_wait(&shared.barriers->rows, 0);
    float sums[4];
    multiply<F>(sums, shared, ring, tiles.chunk_count, at);
    if (warp >= slices.count) continue;
    const ColumnSums slice_sums = quad_sums<LanePlace::kQuadDistance>(finish_slice<F::kPlain>(
        args, place, lane.exchanged(sums), highway.value(), scale, token, is_token));
    if (!is_token || lane.quad_lane() != 0 || args.sums.data == nullptr) continue;
    store_slice_sums(args.sums, tiles, token, slice, slice_sums);
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F>
__global__ __launch_bounds__(kThreads,
                             1) void project_few_kernel(const __grid_constant__ ProjectArgs args,
                                                        const __grid_constant__ SliceSplit split) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte memory[];
  __shared__ Barriers barriers;
  std::byte* stages = aligned_stages(memory);
  const Shared shared{&barriers, stages, stages + F::kRingBytes};
  const PleTiles tiles(args.shape);
  const Ring ring = Ring::of<F>(split.of(static_cast<int>(blockIdx.x)).count);
  if (threadIdx.x < kConsumerThreads) {
    meet<kThreads>(kReady);
    if (args.highway_type == HighwayType::f32) {
      consume<F, float>(args, tiles, shared, split, ring);
    } else {
      consume<F, std::uint16_t>(args, tiles, shared, split, ring);
    }
  } else {
    const bool is_producer = threadIdx.x == kConsumerThreads;
    if (is_producer) barriers.init();
    __syncwarp();
    arrive<kThreads>(kReady);  // the weights do not wait for the consumers
    if (is_producer) produce<F>(args, tiles, shared, split, ring);
  }
#endif
}

template <class F>
Status project_with(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  static_assert(F::reads_what_it_has());
  const SliceSplit split = SliceSplit::evenly(args, kMaxSlices);
  const int blocks = std::min(split.tile_count(), args.multiprocessor_count);
  const Launch shape{.grid = dim3(static_cast<unsigned>(blocks)),
                     .block_threads = kThreads,
                     .shared_bytes = kSharedBytes,
                     .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(project_few_kernel<F>, shape, stream, args, split));
  return {};
}

template <bool kPlain>
Status project_plain_or_not(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  return args.is_packed
             ? project_with<Form<1, kPlain>>(args, is_overlapped, stream)
             : project_with<Form<kFewProductTokens, kPlain>>(args, is_overlapped, stream);
}

}  // namespace

Status project_few_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  return is_plain(args) ? project_plain_or_not<true>(args, is_overlapped, stream)
                        : project_plain_or_not<false>(args, is_overlapped, stream);
}

}  // namespace ple::kernels
