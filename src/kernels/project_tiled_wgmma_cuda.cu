#include "device/cuda_check.hpp"
#include "kernels/project_parked.cuh"

// The product for many tokens on Hopper: a persistent grid of clusters. The blocks of a cluster
// have different tokens and the same groups of columns, of which each reads its share and sends it
// to all: what a multiprocessor can fetch from the L2 would bound the product otherwise.

namespace ple::kernels {

namespace {

constexpr int kProducerRegisters = 40;
constexpr int kConsumerRegisters = 232;
constexpr int kConsumers = 2;
constexpr int kEarlyStages = 2;  // of weights, before the rows are known, which wait behind them
constexpr int kThreads = (kConsumers + 1) * kWarpgroupThreads;

// kRowTiles: wgmma row tiles of a consumer; kSlices: slices of columns of a tile. The consumers
// share a tile, each with its rows, or take turns at tiles of their own, so that one multiplies
// while the other finishes.
template <int kRowTiles_, int kSlices_, bool kShareTile_, int kStages_, int kBlocks_, bool kPlain_>
struct Form {
  static constexpr bool kPlain = kPlain_;  // see with_bias, finish_slice
  static constexpr int kRowTiles = kRowTiles_;
  static constexpr int kSlices = kSlices_;
  static constexpr bool kShareTile = kShareTile_;
  static constexpr int kStages = kStages_;
  static constexpr int kBlocks = kBlocks_;  // of a cluster

  static constexpr int kColumns = kSlices * kSliceColumns;
  static constexpr int kRows = kRowTiles * kWarpgroupRows * (kShareTile ? kConsumers : 1);
  static constexpr int kRowBytes = kRows * kTileRowBytes;
  static constexpr int kStageBytes = kRowBytes + kSlices * kSliceTileBytes;
  static constexpr int kSharedBytes = kTileAlignment + kStages * kStageBytes;
  static_assert(kStageBytes % kTileAlignment == 0 && kRowBytes % kTileAlignment == 0);
  static_assert(kRows == kMaxBlockRows);
  static_assert(kShareTile ? kRowTiles == 1 : kSlices % kGroupSlices == 0);
};

template <class F>
struct Barriers : StageBarriers<F::kStages> {
  std::uint64_t turn[kConsumers];  // the consumer's turn to multiply
  std::uint64_t finished;          // the tile that the consumers share
};

struct Tile {
  int row;    // first token of this block
  int slice;  // first slice
};

template <class F>
__device__ int slice_count(const ProjectArgs& args, Tile tile) {
  return min(F::kSlices, args.group_end * kGroupSlices - tile.slice);
}

// A cluster's tiles in an order in which those that run at the same time share operands in the L2:
// all columns for a band of rows, then the next band.
template <class F>
class TileOrder {
 public:
  __device__ TileOrder(const ProjectArgs& args, int token_count)
      : row_tiles_((token_count + kClusterRows - 1) / kClusterRows),
        begin_(args.group_begin * kGroupSlices),
        column_tiles_((args.group_end * kGroupSlices - begin_ + F::kSlices - 1) / F::kSlices) {}
  __device__ int count() const { return row_tiles_ * column_tiles_; }
  __device__ Tile tile(int index) const {
    const int band = index / (kBand * column_tiles_);
    const int in_band = index - band * kBand * column_tiles_;
    const int rows = min(kBand, row_tiles_ - band * kBand);
    const int row_tile = band * kBand + in_band % rows;
    return {row_tile * kClusterRows + cluster_rank() * F::kRows,
            begin_ + in_band / rows * F::kSlices};
  }

 private:
  static constexpr int kClusterRows = F::kRows * F::kBlocks;
  static constexpr int kBand = 16 / F::kBlocks;
  int row_tiles_;
  int begin_;  // slice
  int column_tiles_;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// The copies of one tile's chunks. Every block of the cluster calls start for every chunk: it
// brings its own rows, and its share of the columns to all.
template <class F>
class TileCopies {
 public:
  __device__ TileCopies(const ProjectArgs& args, const PleTiles& tiles, Tile tile, int token_count)
      : rows_(args, tiles, tile.row < token_count ? tile.row : 0),
        row_bytes_(static_cast<std::uint32_t>(
                       max(0, min(F::kRows, (token_count - tile.row + 7) / 8 * 8))) *
                   kTileRowBytes),
        column_bytes_(static_cast<std::uint32_t>(slice_count<F>(args, tile)) * kSliceTileBytes),
        share_at_(static_cast<std::uint32_t>(cluster_rank()) * (column_bytes_ / F::kBlocks)),
        share_(reinterpret_cast<const std::byte*>(args.projection) +
               std::int64_t{tile.slice} * kSliceTileBytes + share_at_),
        chunk_bytes_(tiles.projection_at(1, 0)) {}

  __device__ void start(std::byte* stage, int chunk, std::uint64_t* full) const {
    start_columns(stage, chunk, full);
    start_rows(stage, chunk, full);
  }
  // The same in two steps: the weights never change, so they may come before the rows are known.
  __device__ void start_columns(std::byte* stage, int chunk, std::uint64_t* full) const {
    barrier_expect(full, column_bytes_);
    bulk_copy_all<F::kBlocks>(stage + F::kRowBytes + share_at_, share_ + chunk * chunk_bytes_,
                              column_bytes_ / F::kBlocks, full);
  }
  __device__ void start_rows(std::byte* stage, int chunk, std::uint64_t* full) const {
    barrier_expect(full, row_bytes_);
    barrier_arrive(full);
    if (row_bytes_ != 0) bulk_copy(stage, rows_.from + chunk * rows_.chunk_bytes, row_bytes_, full);
  }

 private:
  const EmbeddingRows rows_;
  const std::uint32_t row_bytes_;
  const std::uint32_t column_bytes_;
  const std::uint32_t share_at_;
  const std::byte* const share_;
  const std::int64_t chunk_bytes_;
};

template <class F>
__device__ void produce(const ProjectArgs& args, const PleTiles& tiles, Barriers<F>& barriers,
                        std::byte* stages) {
  const int cluster = static_cast<int>(blockIdx.x) / F::kBlocks;
  int early = 0;  // chunks whose weights are already on their way
  if (args.token_capacity <= F::kRows * F::kBlocks) {  // then the order is known without the step
    const TileOrder<F> order(args, args.token_capacity);
    const TileCopies<F> copies(args, tiles, order.tile(cluster), 0);
    for (; early < min(kEarlyStages, tiles.chunk_count); ++early) {
      copies.start_columns(stages + early * F::kStageBytes, early, &barriers.full[early]);
    }
  }
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = args.counts->token_count;
  const TileOrder<F> order(args, max(token_count, 1));  // what was asked for early must arrive
  StageCursor<F::kStages> at;
  std::uint32_t finished_parity = 0;
  for (int index = cluster; index < order.count();
       index += static_cast<int>(gridDim.x) / F::kBlocks) {
    if (F::kShareTile && index != cluster) {  // its sums are parked in the stages
      barrier_wait(&barriers.finished, finished_parity);
      finished_parity ^= 1;
    }
    const TileCopies<F> copies(args, tiles, order.tile(index), token_count);
    for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
      std::byte* stage = stages + at.stage * F::kStageBytes;
      if (early > 0) {
        --early;
        copies.start_rows(stage, chunk, &barriers.full[at.stage]);
      } else {
        barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
        copies.start(stage, chunk, &barriers.full[at.stage]);
      }
      at.advance(1);
    }
  }
}

// Multiplies all chunks of one tile into the accumulators.
template <class F>
__device__ void multiply_tile(float (&sums)[F::kRowTiles][F::kColumns / 2], Barriers<F>& barriers,
                              const std::byte* stages, int consumer, int chunk_count,
                              StageCursor<F::kStages>& at) {
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  const int first_row = F::kShareTile ? consumer * F::kRowTiles * kWarpgroupRows : 0;
  int previous_stage = 0;
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    const std::byte* stage = stages + at.stage * F::kStageBytes;
    const std::uint64_t rows = operand(stage + first_row * kTileRowBytes);
    const std::uint64_t columns = operand(stage + F::kRowBytes);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kStepsPerChunk; ++step) {
#pragma unroll
      for (int m = 0; m < F::kRowTiles; ++m) {
        constexpr std::uint64_t kRowTileStep = kWarpgroupRows * kTileRowBytes >> 4;
        wgmma<F::kColumns>(sums[m], rows + m * kRowTileStep + step * kOperandStep,
                           columns + step * kOperandStep, chunk == 0 && step == 0);
      }
    }
    wgmma_commit();
    wgmma_wait<1>();  // the chunk before this one has been read
    if (chunk > 0 && is_leader) barrier_arrive_all<F::kBlocks>(&barriers.empty[previous_stage]);
    previous_stage = at.stage;
    at.advance(1);
  }
  // Only now: a barrier's parity tells apart no more than two rounds of the ring.
  if (!F::kShareTile && is_leader) barrier_arrive(&barriers.turn[1 - consumer]);
  wgmma_wait<0>();
  if (is_leader) barrier_arrive_all<F::kBlocks>(&barriers.empty[previous_stage]);
}

template <class F>
__device__ void finish_groups(const ProjectArgs& args, const PleTiles& tiles,
                              const float (&sums)[F::kRowTiles][F::kColumns / 2], Tile tile,
                              int token_count) {
#pragma unroll
  for (int m = 0; m < F::kRowTiles; ++m) {
    const std::int64_t token = tile.row + m * kWarpgroupRows + accumulator_row();
#pragma unroll
    for (int g = 0; g < F::kSlices / kGroupSlices; ++g) {
      if (tile.slice / kGroupSlices + g >= args.group_end) break;
      finish_group<F::kPlain>(args, tiles, &sums[m][g * kGroupColumns / 2],
                              tile.slice / kGroupSlices + g, token, token_count);
    }
  }
}

// The consumers of a tile that they share have read all stages, and park their sums there.
template <class F>
__device__ void finish_shared(const ProjectArgs& args, const PleTiles& tiles, Barriers<F>& barriers,
                              std::byte* stages, const float* sums, Tile tile, bool is_last,
                              int consumer, int token_count) {
  using Park = ParkedSlices<F::kSlices, float>;  // the larger one
  static_assert(kConsumers * Park::kBytes <= F::kStages * F::kStageBytes);
  meet<kConsumers * kWarpgroupThreads>(1);
  const Slices slices{tile.slice, slice_count<F>(args, tile)};
  const std::int64_t token = tile.row + consumer * kWarpgroupRows + accumulator_row();
  std::byte* park = stages + consumer * Park::kBytes;
  if (args.highway_type == HighwayType::f32) {
    finish_parked<F::kSlices, F::kPlain, float>(args, tiles, park, 2 + consumer, sums, slices,
                                                token, token_count);
  } else {
    finish_parked<F::kSlices, F::kPlain, std::uint16_t>(args, tiles, park, 2 + consumer, sums,
                                                        slices, token, token_count);
  }
  if (is_last) return;
  publish_to_async();
  barrier_arrive_all<F::kBlocks>(&barriers.finished);
}

template <class F>
__device__ void consume(const ProjectArgs& args, const PleTiles& tiles, Barriers<F>& barriers,
                        std::byte* stages, int consumer) {
  wait_previous_kernel();
  start_next_kernel();  // not before: the next kernel may then read what the gather wrote
  const int token_count = args.counts->token_count;
  const TileOrder<F> order(args, max(token_count, 1));  // what was asked for early must arrive
  const int clusters = static_cast<int>(gridDim.x) / F::kBlocks;
  constexpr int kTurns = F::kShareTile ? 1 : kConsumers;
  const int turn = F::kShareTile ? 0 : consumer;

  float sums[F::kRowTiles][F::kColumns / 2];
  StageCursor<F::kStages> at;
  at.advance(turn * tiles.chunk_count);
  std::uint32_t turn_parity = turn == 0 ? 1 : 0;  // the first turn is free
  for (int index = static_cast<int>(blockIdx.x) / F::kBlocks + turn * clusters;
       index < order.count(); index += kTurns * clusters) {
    const Tile tile = order.tile(index);
    if (!F::kShareTile) {
      barrier_wait(&barriers.turn[consumer], turn_parity);
      turn_parity ^= 1;
    }
    multiply_tile<F>(sums, barriers, stages, consumer, tiles.chunk_count, at);
    at.advance((kTurns - 1) * tiles.chunk_count);
    if constexpr (F::kShareTile) {
      const bool is_last = index + clusters >= order.count();
      finish_shared<F>(args, tiles, barriers, stages, sums[0], tile, is_last, consumer,
                       token_count);
    } else {
      finish_groups<F>(args, tiles, sums, tile, token_count);
    }
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F>
__global__ __cluster_dims__(F::kBlocks)
    __launch_bounds__(kThreads,
                      1) void project_tiled_kernel(const __grid_constant__ ProjectArgs args) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ Barriers<F> barriers;
  std::byte* stages = aligned_stages(shared);
  const PleTiles tiles(args.shape);
  if (threadIdx.x == 0) {
    constexpr int kReaders = F::kBlocks * (F::kShareTile ? kConsumers : 1);
    for (int stage = 0; stage < F::kStages; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], kReaders);
    }
    for (int consumer = 0; consumer < kConsumers; ++consumer) {
      barrier_init(&barriers.turn[consumer], 1);
    }
    barrier_init(&barriers.finished, kReaders * kWarpgroupThreads);
    barrier_init_fence();
  }
  cluster_sync();
  const int consumer = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  if (consumer == kConsumers) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x == kConsumers * kWarpgroupThreads) produce(args, tiles, barriers, stages);
  } else {
    take_registers<kConsumerRegisters>();
    consume(args, tiles, barriers, stages, consumer);
  }
  cluster_sync();  // the other blocks may still send to this one
#endif
}

template <class F>
Status project_with(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  constexpr int kClusterRows = F::kRows * F::kBlocks;
  const int slices = (args.group_end - args.group_begin) * kGroupSlices;
  const int column_tiles = (slices + F::kSlices - 1) / F::kSlices;
  const int tiles = (args.token_capacity + kClusterRows - 1) / kClusterRows * column_tiles;
  const int resident = args.multiprocessor_count / F::kBlocks;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(F::kBlocks * (tiles < resident ? tiles : resident))),
      .block_threads = kThreads,
      .shared_bytes = F::kSharedBytes,
      .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(project_tiled_kernel<F>, shape, stream, args));
  return {};
}

// Some tokens: all tiles run at once, on nearly all multiprocessors. Many: what fills the rounds of
// the grid best.
template <bool kPlain>
using SomeTokens = Form<1, 13, true, 5, 2, kPlain>;
template <bool kPlain>
using ManyTokens = Form<2, 10, false, 6, 2, kPlain>;

}  // namespace

Status project_tiled_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  if (args.token_capacity <= kMaxSliceSumTokens) {
    return is_plain(args) ? project_with<SomeTokens<true>>(args, is_overlapped, stream)
                          : project_with<SomeTokens<false>>(args, is_overlapped, stream);
  }
  if (args.bias == nullptr && !args.rounds_keys) {
    return project_with<ManyTokens<true>>(args, is_overlapped, stream);
  }
  return project_with<ManyTokens<false>>(args, is_overlapped, stream);
}

}  // namespace ple::kernels
