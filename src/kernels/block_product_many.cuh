#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_product.cuh"
#include "kernels/project_wgmma.cuh"

// The product of block_product.cuh for many tokens on Hopper: a persistent grid of clusters. The
// blocks of a cluster have different tokens and the same panels, of which each reads its share and
// sends it to all. Two warpgroups share a tile, each with its rows.

namespace ple::kernels {

namespace {

template <int kPanels_, int kStages_>
struct ManyForm {
  static constexpr int kPanels = kPanels_;
  static constexpr int kStages = kStages_;
  static constexpr int kConsumers = 2;
  static constexpr int kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr int kRanks = 2;
  static constexpr int kColumns = kPanels * kPanelColumns;
  static constexpr int kRows = kConsumers * kWarpgroupRows;
  static constexpr int kRowBytes = kRows * kTileRowBytes;
  static constexpr int kWeightBytes = kPanels * kPanelTileBytes;
  static constexpr int kShareBytes = kWeightBytes / kRanks;
  static constexpr int kStageBytes = kRowBytes + kWeightBytes;
  static constexpr int kSharedBytes = kTileAlignment + kStages * kStageBytes;
  static_assert(kStageBytes % kTileAlignment == 0 && kRowBytes % kTileAlignment == 0);
  static_assert(kRows == kMaxBlockRows);
};

// The tiles of a cluster: all panels for some rows, then the next rows.
template <class F>
struct ManyTiles {
  int panel_tiles;
  int count;
  __device__ ManyTiles(const BlockTiles& tiles, int token_count)
      : panel_tiles(tiles.panel_count() / F::kPanels),
        count(panel_tiles * ((token_count + F::kRows * F::kRanks - 1) / (F::kRows * F::kRanks))) {}
  __device__ int first_row(int index) const {
    return (index / panel_tiles * F::kRanks + cluster_rank()) * F::kRows;
  }
  __device__ int first_panel(int index) const { return index % panel_tiles * F::kPanels; }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <class F>
__device__ void produce_tiles(const BlockProduct& product, StageBarriers<F::kStages>& barriers,
                              std::byte* stages) {
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = product.step.counts->token_count;
  const ManyTiles<F> order(product.tiles, token_count);
  const int share = cluster_rank() * F::kShareBytes;
  StageCursor<F::kStages> at;
  for (int index = static_cast<int>(blockIdx.x) / F::kRanks; index < order.count;
       index += static_cast<int>(gridDim.x) / F::kRanks) {
    const int row = order.first_row(index);
    const int panel = order.first_panel(index);
    const int rows = max(0, min(F::kRows, (token_count - row + 7) / 8 * 8));
    const auto row_bytes = static_cast<std::uint32_t>(rows * kTileRowBytes);
    for (int chunk = 0; chunk < product.tiles.chunk_count(); ++chunk) {
      barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
      std::uint64_t* full = &barriers.full[at.stage];
      std::byte* stage = stages + at.stage * F::kStageBytes;
      barrier_expect(full, row_bytes + F::kWeightBytes);
      barrier_arrive(full);
      if (row_bytes != 0) bulk_copy(stage, x_tile(product, row, chunk), row_bytes, full);
      bulk_copy_all<F::kRanks>(stage + F::kRowBytes + share,
                               weight_tile(product, panel, chunk) + share, F::kShareBytes, full);
      at.advance(1);
    }
  }
}

// Multiplies the chunks of a chain into the accumulators.
template <class F>
__device__ void multiply_chain(float (&sums)[F::kColumns / 2], StageBarriers<F::kStages>& barriers,
                               const std::byte* stages, int consumer, int chunk_count,
                               StageCursor<F::kStages>& at) {
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  int previous_stage = 0;
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    const std::byte* stage = stages + at.stage * F::kStageBytes;
    start_chunk<F::kColumns>(sums, stage + consumer * kWarpgroupRows * kTileRowBytes,
                             stage + F::kRowBytes, chunk == 0);
    wgmma_wait<1>();  // the chunk before this one has been read
    if (chunk > 0 && is_leader) barrier_arrive_all<F::kRanks>(&barriers.empty[previous_stage]);
    previous_stage = at.stage;
    at.advance(1);
  }
  wgmma_wait<0>();
  if (is_leader) barrier_arrive_all<F::kRanks>(&barriers.empty[previous_stage]);
}

template <class F, class Family>
__device__ void consume_tiles(const Family& family, StageBarriers<F::kStages>& barriers,
                              const std::byte* stages, int consumer) {
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = family.step.counts->token_count;
  const ManyTiles<F> order(family.tiles, token_count);
  float sums[F::kColumns / 2];
  float totals[F::kColumns / 2];
  StageCursor<F::kStages> at;
  for (int index = static_cast<int>(blockIdx.x) / F::kRanks; index < order.count;
       index += static_cast<int>(gridDim.x) / F::kRanks) {
    const int token = order.first_row(index) + consumer * kWarpgroupRows + accumulator_row();
    const int column =
        order.first_panel(index) * kPanelColumns + static_cast<int>(threadIdx.x) % kQuadThreads * 4;
    const Firsts<Family, F::kPanels * kPanelSlices> firsts(family, token, column, token_count);
    multiply_chain<F>(sums, barriers, stages, consumer, chunks_of_chain(family.tiles, 0), at);
    firsts.expand(totals);
    add_chains(totals, sums, family.rounds_each);
    for (int chain = 1; chain < family.tiles.chain_count(); ++chain) {
      multiply_chain<F>(sums, barriers, stages, consumer, chunks_of_chain(family.tiles, chain), at);
      add_chains(totals, sums, family.rounds_each);
    }
    finish_rows(family, totals, firsts.tokens, token, column, token_count);
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F, class Family>
__global__ __launch_bounds__(F::kThreads, 1) void block_product_many_kernel(
    const __grid_constant__ Family family) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int kProducerRegisters = 40;
  constexpr int kConsumerRegisters = 232;
  extern __shared__ std::byte shared[];
  __shared__ StageBarriers<F::kStages> barriers;
  std::byte* stages = aligned_stages(shared);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < F::kStages; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], F::kRanks * F::kConsumers);
    }
    barrier_init_fence();
  }
  cluster_sync();
  const int consumer = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  if (consumer == F::kConsumers) {
    give_registers<kProducerRegisters>();
    if (threadIdx.x == F::kConsumers * kWarpgroupThreads) {
      produce_tiles<F>(family, barriers, stages);
    }
  } else {
    take_registers<kConsumerRegisters>();
    consume_tiles<F>(family, barriers, stages, consumer);
  }
  cluster_sync();  // the other blocks may still send to this one
#endif
}

template <class F, class Family>
Status block_product_with(const Family& family, int multiprocessor_count, bool is_overlapped,
                          cudaStream_t stream) {
  constexpr int kClusterRows = F::kRows * F::kRanks;
  const int panel_tiles = family.tiles.panel_count() / F::kPanels;
  const int tiles = (family.token_capacity + kClusterRows - 1) / kClusterRows * panel_tiles;
  const int resident = multiprocessor_count / F::kRanks;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(F::kRanks * (tiles < resident ? tiles : resident))),
      .block_threads = F::kThreads,
      .shared_bytes = F::kSharedBytes,
      .is_overlapped = is_overlapped,
      .cluster_blocks = F::kRanks};
  PLE_CUDA_TRY(launch(block_product_many_kernel<F, Family>, shape, stream, family));
  return {};
}

}  // namespace

template <class Family>
Status block_product_many_cuda(const Family& family, int multiprocessor_count, bool is_overlapped,
                               cudaStream_t stream) {
  constexpr int kMaxSomeTokens = 512;  // narrow tiles up to here, so that there are enough of them
  if (family.token_capacity <= kMaxSomeTokens) {
    return block_product_with<ManyForm<1, 7>>(family, multiprocessor_count, is_overlapped, stream);
  }
  return block_product_with<ManyForm<2, 5>>(family, multiprocessor_count, is_overlapped, stream);
}

}  // namespace ple::kernels
