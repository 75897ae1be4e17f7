#include "device/cuda_check.hpp"
#include "kernels/e4m3_codes.cuh"
#include "kernels/project_slices.cuh"

// The product with weights in E4M3 on Hopper. The weights are the operand that a warpgroup keeps in
// registers, 64 rows of them, a slice for each warp: every thread makes bf16 of its fragments, so
// that the weights cross the memory once, in 8 bits. The tokens are the columns.

namespace ple::kernels {

namespace {

constexpr int kWarpgroupSlices = kWarpgroupThreads / kWarpThreads;
constexpr int kEarlyStages = 3;
constexpr int kRowsAtOnce = 8;  // tokens of one matrix instruction's smallest width

// kTokens: of a tile; kConsumers: warpgroups, each with its slices of the tile; kBlocks: of a
// cluster, whose blocks have the same tokens, of which each reads its share and sends it to all.
template <int kTokens_, int kConsumers_, int kStages_, int kBlocks_>
struct Form {
  static constexpr int kTokens = kTokens_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kStages = kStages_;
  static constexpr int kBlocks = kBlocks_;

  static constexpr int kSlices = kConsumers * kWarpgroupSlices;
  static constexpr int kShareRows = kTokens / kBlocks;
  static constexpr int kTokenBytes = kTokens * kTileRowBytes;
  static constexpr int kStageBytes =
      (kTokenBytes + kSlices * kE4m3SliceBytes + kTileAlignment - 1) / kTileAlignment *
      kTileAlignment;
  static constexpr int kSharedBytes = kTileAlignment + kStages * kStageBytes;
  // Accumulators of many tokens need the producer's registers, and a whole warpgroup gives them.
  static constexpr bool kMovesRegisters = kTokens > kMaxSlicedTokens;
  static constexpr int kThreads =
      kConsumers * kWarpgroupThreads + (kMovesRegisters ? kWarpgroupThreads : kWarpThreads);
  static constexpr bool kStartsEarly = kBlocks == 1;
  static_assert(kTokenBytes % kTileAlignment == 0);
  static_assert(kShareRows <= kMaxBlockRows);
};

using FewTokens = Form<8, 4, 11, 1>;
using SomeTokens = Form<kMaxSlicedTokens, 4, 8, 1>;
using ManyTokens = Form<256, 2, 5, 2>;
constexpr int kMaxFewTokens = FewTokens::kTokens;

struct Tile {
  int token;      // the first
  Slices slices;  // of this block
};

// A cluster's tiles; one at least where copies start before there is known to be any token. Those
// that run at the same time share tokens and slices in the L2: all slices for a band of tokens,
// then the next band.
template <class F>
class TileOrder {
 public:
  __device__ TileOrder(const ProjectArgs& args, int token_count, int slice_tile_count)
      : args_(args),
        token_tiles_(max((token_count + F::kTokens - 1) / F::kTokens, F::kStartsEarly ? 1 : 0)),
        slice_tiles_(slice_tile_count),
        slice_clusters_((slice_tile_count + F::kBlocks - 1) / F::kBlocks) {}
  __device__ int count() const { return token_tiles_ * slice_clusters_; }
  __device__ Tile tile(int index) const {
    const int band = index / (kBand * slice_clusters_);
    const int in_band = index - band * kBand * slice_clusters_;
    const int tokens = min(kBand, token_tiles_ - band * kBand);
    return {(band * kBand + in_band % tokens) * F::kTokens, slices(in_band / tokens)};
  }
  // Of a tile of any tokens.
  __device__ Slices slices(int slice_cluster) const {
    const int tile = slice_cluster * F::kBlocks + block_rank();
    return tile < slice_tiles_ ? slices_of(args_, tile, slice_tiles_) : Slices{};
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

template <class F>
using Barriers = StageBarriers<F::kStages>;

// The slices of a tile.
class CodeCopies {
 public:
  __device__ CodeCopies(const ProjectArgs& args, const PleTiles& tiles, Slices slices)
      : from_(args.codes + std::int64_t{slices.begin} * kE4m3SliceBytes),
        chunk_bytes_(e4m3_chunk_bytes(tiles)),
        bytes_(static_cast<std::uint32_t>(slices.count) * kE4m3SliceBytes) {}
  __device__ std::uint32_t bytes() const { return bytes_; }
  __device__ void start(std::byte* to, int chunk, std::uint64_t* full) const {
    if (bytes_ != 0) bulk_copy(to, from_ + chunk * chunk_bytes_, bytes_, full);
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
      : rows_(args, tiles, min(first_token + share() * F::kShareRows, last_row(args))),
        share_bytes_(row_bytes(token_count - first_token - share() * F::kShareRows)) {
    for (int i = 0; i < F::kBlocks; ++i) {
      bytes_ += row_bytes(token_count - first_token - i * F::kShareRows);
    }
  }
  __device__ std::uint32_t bytes() const { return bytes_; }  // of all shares
  __device__ void start(std::byte* stage, int chunk, std::uint64_t* full) const {
    if (share_bytes_ == 0) return;
    const std::byte* from = rows_.from + chunk * rows_.chunk_bytes;
    if constexpr (F::kBlocks == 1) {
      bulk_copy(stage, from, share_bytes_, full);
    } else {
      bulk_copy_all<F::kBlocks>(stage + share() * F::kShareRows * kTileRowBytes, from, share_bytes_,
                                full);
    }
  }

 private:
  __device__ static int share() { return TileOrder<F>::block_rank(); }
  // The first row of the last block of embeddings, where a share without tokens may point.
  __device__ static int last_row(const ProjectArgs& args) {
    const int block_rows = PleTiles::block_rows(args.token_capacity);
    return (args.token_capacity - 1) / block_rows * block_rows;
  }
  __device__ static std::uint32_t row_bytes(int tokens) {
    return static_cast<std::uint32_t>(max(0, min(F::kShareRows, (tokens + 7) / 8 * 8))) *
           kTileRowBytes;
  }
  const EmbeddingRows rows_;
  const std::uint32_t share_bytes_;
  std::uint32_t bytes_ = 0;
};

template <class F>
__device__ void produce(const ProjectArgs& args, const PleTiles& tiles, Barriers<F>& barriers,
                        std::byte* stages, int slice_tile_count) {
  const int first = static_cast<int>(blockIdx.x) / F::kBlocks;
  const int clusters = static_cast<int>(gridDim.x) / F::kBlocks;
  // The weights never change: those of some stages are on their way before the step is known. The
  // loads of the kernels before this one would queue behind those of more.
  int early = 0;
  if constexpr (F::kStartsEarly) {
    const CodeCopies copies(args, tiles,
                            TileOrder<F>(args, F::kTokens, slice_tile_count).slices(first));
    for (; early < min(kEarlyStages, tiles.chunk_count); ++early) {
      barrier_expect(&barriers.full[early], copies.bytes());
      copies.start(stages + early * F::kStageBytes + F::kTokenBytes, early, &barriers.full[early]);
    }
  }
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = args.counts->token_count;
  const TileOrder<F> order(args, token_count, slice_tile_count);
  StageCursor<F::kStages> at;
  for (int index = first; index < order.count(); index += clusters) {
    const Tile tile = order.tile(index);
    const CodeCopies weights(args, tiles, tile.slices);
    const TokenCopies<F> tokens(args, tiles, tile.token, token_count);
    for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
      std::byte* stage = stages + at.stage * F::kStageBytes;
      std::uint64_t* full = &barriers.full[at.stage];
      if (early == 0) {
        barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
        barrier_expect(full, weights.bytes() + tokens.bytes());
        weights.start(stage + F::kTokenBytes, chunk, full);
      } else {
        --early;
        barrier_expect(full, tokens.bytes());
      }
      barrier_arrive(full);
      tokens.start(stage, chunk, full);
      at.advance(1);
    }
  }
}

// Multiplies all chunks of a tile. A stage is given back once the products that read its tokens
// have ended; the codes of the next one are fetched meanwhile.
template <class F>
__device__ void multiply(float (&sums)[F::kTokens / 2], Barriers<F>& barriers,
                         const std::byte* stages, int slice, int chunk_count,
                         StageCursor<F::kStages>& at) {
  const bool is_leader = threadIdx.x % kWarpThreads == 0;
  const auto codes_of = [&](int stage) {
    return stages + stage * F::kStageBytes + F::kTokenBytes + slice * kE4m3SliceBytes;
  };
  Fragments fragments;
  barrier_wait(&barriers.full[at.stage], at.parity);
  fragments.load(codes_of(at.stage));
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    std::uint32_t weights[kStepsPerChunk][4];
    fragments.unpack(weights);
    const std::uint64_t tokens = operand(stages + at.stage * F::kStageBytes);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kStepsPerChunk; ++step) {
      wgmma_registers<F::kTokens>(sums, weights[step], tokens + step * kOperandStep,
                                  chunk == 0 && step == 0);
    }
    wgmma_commit();
    const int stage = at.stage;
    at.advance(1);
    if (chunk + 1 < chunk_count) {
      barrier_wait(&barriers.full[at.stage], at.parity);
      fragments.load(codes_of(at.stage));
    }
    wgmma_wait<0>();
    if (is_leader) barrier_arrive_all<F::kBlocks>(&barriers.empty[stage]);
  }
}

// Of a warpgroup without slices.
template <class F>
__device__ void skip_tile(Barriers<F>& barriers, int chunk_count, StageCursor<F::kStages>& at) {
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    if (threadIdx.x % kWarpThreads == 0) {
      barrier_arrive_all<F::kBlocks>(&barriers.empty[at.stage]);
    }
    at.advance(1);
  }
}

// Eight tokens of a warp's slice, turned so that a quad of lanes has a token and each lane four
// columns of it.
struct Turned {
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

// Takes in a warp's slice of all tokens of a tile. The highway is read for as many tokens at once
// as registers allow, so that its latency is paid seldom.
template <class T, class F>
__device__ void finish_tile(const ProjectArgs& args, const PleTiles& tiles,
                            const float (&sums)[F::kTokens / 2], int slice, int first_token,
                            int token_count, Turned& turned) {
  constexpr int kBatch = F::kTokens / kRowsAtOnce < 8 ? F::kTokens / kRowsAtOnce : 8;
  const SlicePlace place(args.shape, tiles, slice);
  const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
  const T* highway = static_cast<const T*>(args.highway) + place.channel();
  const float4 scale = load4(args.gate_scale + place.channel());
  const int row = static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads;
#pragma unroll
  for (int batch = 0; batch < F::kTokens / kRowsAtOnce; batch += kBatch) {
    if (first_token + batch * kRowsAtOnce >= token_count) break;
    Vector4<T> inputs[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int token = first_token + (batch + i) * kRowsAtOnce + row;
      inputs[i].load(highway + min(token, args.token_capacity - 1) * width);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const std::int64_t token = first_token + (batch + i) * kRowsAtOnce + row;
      const bool is_token = token < token_count;
      const ColumnSums columns =
          quad_sums(finish_slice(args, place, turned.turn(sums + (batch + i) * 4),
                                 inputs[i].value(), scale, token, is_token));
      if (is_token && !place.is_value() && threadIdx.x % kQuadThreads == 0) {
        store_sums(args.sums, token * tiles.group_count * kGroupSlices + slice, columns);
      }
    }
  }
}

template <class T, class F>
__device__ void consume(const ProjectArgs& args, const PleTiles& tiles, Barriers<F>& barriers,
                        const std::byte* stages, Turned& turned, int slice_tile_count) {
  wait_previous_kernel();
  start_next_kernel();  // not before: the next kernel may then read what the gather wrote
  const int token_count = args.counts->token_count;
  const TileOrder<F> order(args, token_count, slice_tile_count);
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int first_of_warpgroup = warp / kWarpgroupSlices * kWarpgroupSlices;
  float sums[F::kTokens / 2];
  StageCursor<F::kStages> at;
  for (int index = static_cast<int>(blockIdx.x) / F::kBlocks; index < order.count();
       index += static_cast<int>(gridDim.x) / F::kBlocks) {
    const Tile tile = order.tile(index);
    if (first_of_warpgroup >= tile.slices.count) {
      skip_tile<F>(barriers, tiles.chunk_count, at);
      continue;
    }
    multiply<F>(sums, barriers, stages, warp, tiles.chunk_count, at);
    if (warp >= tile.slices.count) continue;  // what it multiplied was left over
    finish_tile<T, F>(args, tiles, sums, tile.slices.begin + warp, tile.token, token_count, turned);
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
  __shared__ Barriers<F> barriers;
  __shared__ Turned turned[F::kSlices];
  std::byte* stages = aligned_stages(shared);
  const PleTiles tiles(args.shape);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < F::kStages; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], F::kSlices * F::kBlocks);
    }
    barrier_init_fence();
  }
  cluster_sync();
  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  if (warp >= F::kSlices) {
    if constexpr (F::kMovesRegisters) give_registers<40>();
    if (threadIdx.x == F::kSlices * kWarpThreads) {
      produce<F>(args, tiles, barriers, stages, slice_tile_count);
    }
  } else {
    if constexpr (F::kMovesRegisters) take_registers<232>();
    if (args.highway_type == HighwayType::f32) {
      consume<float, F>(args, tiles, barriers, stages, turned[warp], slice_tile_count);
    } else {
      consume<std::uint16_t, F>(args, tiles, barriers, stages, turned[warp], slice_tile_count);
    }
  }
  cluster_sync();  // the other blocks may still send to this one
#endif
}

template <class F>
Status project_with(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int slices = (args.group_end - args.group_begin) * kGroupSlices;
  const int least = (slices + F::kSlices - 1) / F::kSlices;
  // One round where that is possible, and as even as can be.
  const int even = slices < args.multiprocessor_count ? slices : args.multiprocessor_count;
  const int slice_tiles = F::kBlocks > 1 || least > even ? least : even;
  const int token_tiles = (args.token_capacity + F::kTokens - 1) / F::kTokens;
  const int tiles = (slice_tiles + F::kBlocks - 1) / F::kBlocks * token_tiles;
  const int resident = args.multiprocessor_count / F::kBlocks;
  PLE_CUDA_TRY(cudaFuncSetAttribute(project_e4m3_kernel<F>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize, F::kSharedBytes));
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
