#include "device/cuda_check.hpp"
#include "kernels/e4m3_epilogue.cuh"
#include "kernels/e4m3_multiply.cuh"

// The product with weights in E4M3 on Hopper. The weights are the operand that a warpgroup keeps in
// registers, 64 rows of them, a slice for each warp: every thread makes bf16 of its fragments, so
// that the weights cross the memory once, in 8 bits. The tokens are the columns.

namespace ple::kernels {

namespace {

constexpr int kEarlyChunks = 4;  // of weights in flight while the step is prepared

using FewTokens = E4m3Form<8, 4, 6, 2, 1, 0>;
using SomeTokens = E4m3Form<kMaxSlicedTokens, 4, 4, 2, 1, 112>;
using ManyTokens = E4m3Form<256, 2, 5, 1, 2, 232>;
constexpr int kMaxFewTokens = FewTokens::kTokens;

struct Tile {
  int token;      // the first
  Slices slices;  // of this block
};

// A cluster's tiles. Those that run at the same time share tokens and slices in the L2: all slices
// for a band of tokens, then the next band.
template <class F>
class TileOrder {
 public:
  __device__ TileOrder(const ProjectArgs& args, int token_count, int slice_tile_count)
      : args_(args),
        token_tiles_(F::kStartsEarly ? 1 : (token_count + F::kTokens - 1) / F::kTokens),
        slice_tiles_(slice_tile_count),
        slice_clusters_((slice_tile_count + F::kBlocks - 1) / F::kBlocks) {}
  __device__ int count() const { return token_tiles_ * slice_clusters_; }
  __device__ Tile tile(int index) const {
    const int band = index / (kBand * slice_clusters_);
    const int in_band = index - band * kBand * slice_clusters_;
    const int tokens = min(kBand, token_tiles_ - band * kBand);
    const int slice_tile = in_band / tokens * F::kBlocks + block_rank();
    return {(band * kBand + in_band % tokens) * F::kTokens,
            slice_tile < slice_tiles_ ? SliceSplit(args_, slice_tiles_).of(slice_tile) : Slices{}};
  }
  __device__ static int block_rank() { return static_cast<int>(blockIdx.x) % F::kBlocks; }

 private:
  static constexpr int kBand = 8;
  const ProjectArgs& args_;
  int token_tiles_;
  int slice_tiles_;
  int slice_clusters_;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The slices of a tile.
template <class F>
class CodeCopies {
 public:
  __device__ CodeCopies(const ProjectArgs& args, const PleTiles& tiles, Slices slices)
      : from_(args.codes + std::int64_t{slices.begin} * kE4m3SliceBytes),
        chunk_bytes_(e4m3_chunk_bytes(tiles)),
        bytes_(static_cast<std::uint32_t>(slices.count) * kE4m3SliceBytes) {}
  __device__ void start(std::byte* to, int chunk, std::uint64_t* barrier) const {
    barrier_arrive_expecting(barrier, bytes_);
    if (bytes_ == 0) return;
    const std::byte* from = from_ + chunk * chunk_bytes_;
    if constexpr (F::kStartsEarly) {
      bulk_copy_once(to, from, bytes_, barrier);  // there is one tile of tokens
    } else {
      bulk_copy(to, from, bytes_, barrier);
    }
  }

 private:
  const std::byte* from_;
  std::int64_t chunk_bytes_;
  std::uint32_t bytes_;
};

// The tokens of a tile: this block's share, for all blocks of the cluster.
template <class F>
class TokenCopies {
 public:
  __device__ TokenCopies(const ProjectArgs& args, const PleTiles& tiles, int first_token,
                         int token_count)
      : rows_(args, tiles, min(first_token + share() * F::kShareRows, args.token_capacity - 1)),
        share_bytes_(row_bytes(token_count - first_token - share() * F::kShareRows)) {
    for (int i = 0; i < F::kBlocks; ++i) {
      bytes_ += row_bytes(token_count - first_token - i * F::kShareRows);
    }
  }
  __device__ void start(std::byte* stage, int chunk, std::uint64_t* barrier) const {
    barrier_arrive_expecting(barrier, bytes_);
    if (share_bytes_ == 0) return;
    const std::byte* from = rows_.from + chunk * rows_.chunk_bytes;
    if constexpr (F::kBlocks == 1) {
      bulk_copy(stage, from, share_bytes_, barrier);
    } else {
      bulk_copy_all<F::kBlocks>(stage + share() * F::kShareRows * kTileRowBytes, from, share_bytes_,
                                barrier);
    }
  }

 private:
  __device__ static int share() { return TileOrder<F>::block_rank(); }
  __device__ static std::uint32_t row_bytes(int tokens) {
    return static_cast<std::uint32_t>(max(0, min(F::kShareRows, (tokens + 7) / 8 * 8))) *
           kTileRowBytes;
  }
  const EmbeddingRows rows_;
  const std::uint32_t share_bytes_;
  std::uint32_t bytes_ = 0;  // of all shares
};

// From here on what the gather wrote may be read. Not before may the next kernel start, which reads
// it, too.
__device__ inline void await_step() {
  wait_previous_kernel();
  start_next_kernel();
}

// The tokens that work is laid out for: those of the step, or where it starts before that is known
// as many as it may have.
template <class F>
__device__ inline int expected_tokens(const ProjectArgs& args) {
  if constexpr (F::kStartsEarly) return args.token_capacity;
  await_step();
  return args.counts->token_count;
}

template <class F>
__device__ void produce(const ProjectArgs& args, const PleTiles& tiles, E4m3Barriers<F>& barriers,
                        std::byte* stages, int slice_tile_count) {
  const int first = static_cast<int>(blockIdx.x) / F::kBlocks;
  const int clusters = static_cast<int>(gridDim.x) / F::kBlocks;
  const int token_count = expected_tokens<F>(args);
  const TileOrder<F> order(args, token_count, slice_tile_count);
  StageCursor<F::kStages> at;
  int early = 0;
  for (int index = first; index < order.count(); index += clusters) {
    const Tile tile = order.tile(index);
    const CodeCopies<F> weights(args, tiles, tile.slices);
    const TokenCopies<F> tokens(args, tiles, tile.token, token_count);
    if (F::kStartsEarly && index == first) {
      // The weights never change: those of the first stages are copied before the step is known.
      // Few, so that the tokens do not queue behind them.
      for (; early < min(kEarlyChunks, tiles.chunk_count); ++early) {
        weights.start(stages + early * F::kChunkBytes + F::kTokenBytes, early,
                      &barriers.weights[early / F::kStageChunks]);
      }
      await_step();
    }
#pragma unroll 1
    for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
      const int in_stage = chunk % F::kStageChunks;
      std::byte* place = stages + at.stage * F::kStageBytes + in_stage * F::kChunkBytes;
      if (early == 0) {
        if (in_stage == 0) barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
        weights.start(place + F::kTokenBytes, chunk, &barriers.weights[at.stage]);
      } else {
        --early;
      }
      tokens.start(place, chunk, &barriers.tokens[at.stage]);
      if (in_stage == F::kStageChunks - 1) at.advance();
    }
    if (tiles.chunk_count % F::kStageChunks != 0) {
      barrier_arrive(&barriers.weights[at.stage]);
      barrier_arrive(&barriers.tokens[at.stage]);
      at.advance();
    }
  }
}

// A warp's own shared memory.
struct WarpMemory {
  Turned turned;
  std::uint32_t factors[Factors::kWords];
};

template <class T, class F>
__device__ void consume(const ProjectArgs& args, const PleTiles& tiles, E4m3Barriers<F>& barriers,
                        const std::byte* stages, WarpMemory& memory, int slice_tile_count) {
  const int token_count = expected_tokens<F>(args);
  const TileOrder<F> order(args, token_count, slice_tile_count);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int first_of_warpgroup = warp / kWarpgroupSlices * kWarpgroupSlices;
  float sums[F::kSums];
  StageCursor<F::kStages> at;
  for (int index = static_cast<int>(blockIdx.x) / F::kBlocks; index < order.count();
       index += static_cast<int>(gridDim.x) / F::kBlocks) {
    const Tile tile = order.tile(index);
    if (first_of_warpgroup >= tile.slices.count) {
      if constexpr (F::kStartsEarly) await_step();
      skip_tile<F>(barriers, tiles.chunk_count, at);
      continue;
    }
    const int slice = tile.slices.begin + warp;
    const bool has_slice = warp < tile.slices.count;
    if (has_slice) {
      prefetch_highway<T>(args, tiles, slice, tile.token,
                          min(tile.token + F::kTokens, token_count));
    }
    E4m3Multiplier<F> multiplier(args, tiles, barriers, stages, memory.factors, slice, has_slice,
                                 at);
    multiplier.begin();
    if constexpr (F::kStartsEarly) await_step();
    multiplier.run(sums);
    SliceEnd<T, F::kTokens> end(args, tiles, slice, tile.token, args.counts->token_count);
    if (has_slice) end.load();
    multiplier.end();
    if (has_slice) end.take(sums, memory.turned);
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F>
__global__ __cluster_dims__(F::kBlocks)
    __launch_bounds__(F::kThreads,
                      1) void project_e4m3_kernel(const __grid_constant__ ProjectArgs args,
                                                  int slice_tile_count) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ E4m3Barriers<F> barriers;
  __shared__ WarpMemory memory[F::kSlices];
  std::byte* stages = aligned_stages(shared);
  const PleTiles tiles(args.shape);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < F::kStages; ++stage) {
      barrier_init(&barriers.weights[stage], F::kStageChunks);
      barrier_init(&barriers.tokens[stage], F::kStageChunks);
      barrier_init(&barriers.empty[stage], F::kSlices * F::kBlocks);
    }
    barrier_init_fence();
  }
  if constexpr (F::kBlocks > 1) {
    cluster_sync();
  } else {
    __syncthreads();  // not a cluster's barrier, which waits for memory
  }
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  if (warp >= F::kSlices) {
    if constexpr (F::kRegisters > 0) give_registers<kProducerRegisters>();
    if (threadIdx.x == F::kProducerWarp * kWarpThreads) {
      produce<F>(args, tiles, barriers, stages, slice_tile_count);
    }
  } else {
    if constexpr (F::kRegisters > 0) take_registers<F::kRegisters>();
    if (args.highway_type == HighwayType::f32) {
      consume<float, F>(args, tiles, barriers, stages, memory[warp], slice_tile_count);
    } else {
      consume<std::uint16_t, F>(args, tiles, barriers, stages, memory[warp], slice_tile_count);
    }
  }
  if constexpr (F::kBlocks > 1) cluster_sync();  // the others may still send to this block
#endif
}

template <class F>
Status project_with(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int slices = (args.group_end - args.group_begin) * kGroupSlices;
  const int least = (slices + F::kSlices - 1) / F::kSlices;
  // One round where that is possible, and as even as can be. Few tokens wait for the memory alone,
  // of whose rate every multiprocessor gets the same share: as few as the largest number of slices
  // allows.
  int even = slices < args.multiprocessor_count ? slices : args.multiprocessor_count;
  if constexpr (F::kTokens <= kMaxFewTokens) {
    const int most = (slices + even - 1) / even;
    even = (slices + most - 1) / most;
  }
  const int slice_tiles = !F::kStartsEarly || least > even ? least : even;
  const int token_tiles = (args.token_capacity + F::kTokens - 1) / F::kTokens;
  const int tiles = (slice_tiles + F::kBlocks - 1) / F::kBlocks * token_tiles;
  const int resident = args.multiprocessor_count / F::kBlocks;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(F::kBlocks * (tiles < resident ? tiles : resident))),
      .block_threads = F::kThreads,
      .shared_bytes = F::kSharedBytes,
      .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(project_e4m3_kernel<F>, shape, stream, args, slice_tiles));
  return {};
}

}  // namespace

Status project_e4m3_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  if (args.token_capacity <= kMaxFewTokens) {
    return project_with<FewTokens>(args, is_overlapped, stream);
  }
  if (args.token_capacity <= kMaxSlicedTokens) {
    return project_with<SomeTokens>(args, is_overlapped, stream);
  }
  return project_with<ManyTokens>(args, is_overlapped, stream);
}

}  // namespace ple::kernels
