#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_product.cuh"
#include "kernels/project_wgmma.cuh"

// The product of block_product.cuh for few tokens on Hopper, bound by the weights, in one kernel: a
// cluster has a panel of columns and each of its blocks some blocks of the inner dimension, so that
// no multiprocessor reads more of x than it must. The weights' copies start at once, x is gathered
// meanwhile straight into shared memory, and each block of the cluster adds up a share of the
// columns.

namespace ple::kernels {

inline constexpr int kMaxFewTokens = kWarpgroupRows;
inline constexpr int kFewRanks = 4;  // blocks of a cluster

// How one step uses the shared memory of a block: x, then the stages of weights. The sums of a
// block of the inner dimension take the place of its x.
struct FewPlan {
  int rows = 0;  // of a tile of x
  int rank_blocks = 0;
  int block_stride = 0;  // bytes of x of a block
  int stage_count = 0;

  static constexpr int kSharedBytes = 226 << 10;
  static constexpr int kMaxStages = 18;
  static constexpr int kMinStages = 4;  // fewer do not keep the memory busy

  FewPlan(const BlockTiles& tiles, int token_capacity) {
    constexpr int kSumBytes = kPanelColumns * 4;
    rows = (token_capacity + 7) / 8 * 8;
    rank_blocks = (tiles.block_count + kFewRanks - 1) / kFewRanks;
    const int row_bytes = tiles.block_chunks() * kTileRowBytes;
    block_stride = rows * (row_bytes > kSumBytes ? row_bytes : kSumBytes);
    const int chunks = rank_blocks * tiles.block_chunks();
    const int room = (kSharedBytes - kTileAlignment - x_bytes()) / kPanelTileBytes;
    stage_count = chunks < kMaxStages ? chunks : kMaxStages;
    if (room < stage_count) stage_count = room < kMinStages ? 0 : room;
  }
  bool fits() const { return rows <= kMaxFewTokens && stage_count > 0; }
  __host__ __device__ int x_bytes() const { return rank_blocks * block_stride; }
  int shared_bytes() const { return kTileAlignment + x_bytes() + stage_count * kPanelTileBytes; }
};
// The rows of an operand that lie behind the tokens are read, whatever is there.
static_assert(kWarpgroupRows * kTileRowBytes <= kPanelTileBytes);

namespace {

constexpr int kFewThreads = 2 * kWarpgroupThreads;
constexpr int kFewWorkers = kFewThreads - kWarpThreads;  // gather; the last warp brings the weights
constexpr int kFewBatch = 16;                            // rows that a warp has on their way
// Copies of weights under way: as many as use the memory fully. What else is read waits behind
// them.
constexpr int kFewFlight = 4;
constexpr int kShareColumns = kPanelColumns / kFewRanks;
constexpr int kShareVectors = kShareColumns / 4;
constexpr int kShareItems =  // vectors of four totals of a thread
    (kMaxFewTokens * kShareVectors + kFewWorkers - 1) / kFewWorkers;
constexpr int kRemoteBatch = 6;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A block's part of the product.
struct FewPart {
  int panel;
  int first_block;
  int block_count;
  int block_chunks;
  __device__ FewPart(const BlockTiles& tiles, const FewPlan& plan)
      : panel(static_cast<int>(blockIdx.x) / kFewRanks),
        first_block(cluster_rank() * plan.rank_blocks),
        block_count(max(0, min(plan.rank_blocks, tiles.block_count - first_block))),
        block_chunks(tiles.block_chunks()) {}
  __device__ int chunk_count() const { return block_count * block_chunks; }
};

using FewBarriers = StageBarriers<FewPlan::kMaxStages>;

// A place in the ring of stages and the parity of its barriers' phase.
struct StageRing {
  int stage_count;
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ explicit StageRing(int count) : stage_count(count) {}
  __device__ void advance() {
    if (++stage < stage_count) return;
    stage = 0;
    parity ^= 1;
  }
};

__device__ inline void bring_weights(const BlockProduct& product, const FewPlan& plan,
                                     const FewPart& part, FewBarriers& barriers,
                                     std::byte* stages) {
  StageRing at(plan.stage_count);
  StageRing arriving(plan.stage_count);
  for (int chunk = 0; chunk < part.chunk_count(); ++chunk, at.advance()) {
    if (chunk >= plan.stage_count) barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
    if (chunk >= kFewFlight) {
      barrier_wait(&barriers.full[arriving.stage], arriving.parity);
      arriving.advance();
    }
    std::uint64_t* full = &barriers.full[at.stage];
    barrier_expect(full, kPanelTileBytes);
    bulk_copy(stages + at.stage * kPanelTileBytes,
              weight_tile(product, part.panel, part.first_block * part.block_chunks + chunk),
              kPanelTileBytes, full);
    barrier_arrive(full);
  }
}

// The clusters begin at different tokens, so that they do not all ask one slice of the L2.
template <class Family>
__device__ void gather_part(const Family& family, const FewPlan& plan, const FewPart& part,
                            std::byte* x, int token_count) {
  if (token_count == 0 || part.block_count == 0) return;
  const int shift = part.panel % token_count;
  const auto place = [&](int row) {
    const int token = row / part.block_count;
    const int shifted = token + shift < token_count ? token + shift : token + shift - token_count;
    return int2{shifted, row - token * part.block_count};
  };
  gather_rows<kFewBatch>(
      family,
      {.first = static_cast<int>(threadIdx.x) / kWarpThreads,
       .stride = kFewWorkers / kWarpThreads,
       .count = token_count * part.block_count},
      [&](int row) { return family.row(place(row).x, part.first_block + place(row).y); },
      [&](int row, int piece, uint4 elements) {
        const auto [token, block] = place(row);
        std::byte* to = x + block * plan.block_stride +
                        (piece / kChunkPieces * plan.rows + token) * kTileRowBytes;
        reinterpret_cast<uint4*>(to)[piece_place(piece, token)] = elements;
      });
}

// The sums of a block of the inner dimension, [rows, kPanelColumns], take the place of its x.
__device__ inline void store_sums(const FewPlan& plan, const float (&sums)[kPanelColumns / 2],
                                  std::byte* to) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = accumulator_row() + 8 * half;
    if (row >= plan.rows) continue;
    float* columns = reinterpret_cast<float*>(to) + row * kPanelColumns +
                     static_cast<int>(threadIdx.x) % kQuadThreads * 4;
#pragma unroll
    for (int i = 0; i < kPanelSlices; ++i) {
      store4(columns + i * kSliceColumns, accumulated(sums + i * kSliceSums, half));
    }
  }
}

__device__ inline void multiply_part(const FewPlan& plan, const FewPart& part,
                                     FewBarriers& barriers, std::byte* x, const std::byte* stages) {
  float sums[kPanelColumns / 2];
  const bool is_leader = threadIdx.x == 0;
  StageRing at(plan.stage_count);
  for (int block = 0; block < part.block_count; ++block) {
    int previous_stage = -1;
    for (int chunk = 0; chunk < part.block_chunks; ++chunk) {
      barrier_wait(&barriers.full[at.stage], at.parity);
      const std::uint64_t rows =
          operand(x + block * plan.block_stride + chunk * plan.rows * kTileRowBytes);
      const std::uint64_t columns = operand(stages + at.stage * kPanelTileBytes);
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < kStepsPerChunk; ++step) {
        wgmma<kPanelColumns>(sums, rows + step * kOperandStep, columns + step * kOperandStep,
                             chunk == 0 && step == 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the chunk before this one has been read
      if (previous_stage >= 0 && is_leader) barrier_arrive(&barriers.empty[previous_stage]);
      previous_stage = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    if (is_leader) barrier_arrive(&barriers.empty[previous_stage]);
    meet<kWarpgroupThreads>(2);  // the block's x has been read by all
    store_sums(plan, sums, x + block * plan.block_stride);
  }
}

// Adds the blocks of four columns of a token, from wherever in the cluster they are.
__device__ inline float4 total_of(const BlockProduct& product, const FewPlan& plan,
                                  const std::byte* x, int token, int share_column, float4 total) {
  const int column = cluster_rank() * kShareColumns + share_column;
  const std::byte* sums = x + (token * kPanelColumns + column) * 4;
  for (int begin = 0; begin < product.tiles.block_count; begin += kRemoteBatch) {
    float4 values[kRemoteBatch];
#pragma unroll
    for (int i = 0; i < kRemoteBatch; ++i) {
      const int block = min(begin + i, product.tiles.block_count - 1);
      const int rank = block / plan.rank_blocks;
      values[i] = load_remote4(sums + (block - rank * plan.rank_blocks) * plan.block_stride, rank);
    }
#pragma unroll
    for (int i = 0; i < kRemoteBatch; ++i) {
      if (begin + i >= product.tiles.block_count) break;
      total.x = add_block(total.x, values[i].x, product.rounds_each);
      total.y = add_block(total.y, values[i].y, product.rounds_each);
      total.z = add_block(total.z, values[i].z, product.rounds_each);
      total.w = add_block(total.w, values[i].w, product.rounds_each);
    }
  }
  return total;
}

// A worker's vectors of totals in the share of the block: what they begin with, and their end. The
// last warps come first, those that do not multiply.
template <class Family>
class FewShare {
 public:
  __device__ FewShare(const Family& family, int panel, int token_count) : family_(family) {
#pragma unroll
    for (int i = 0; i < kShareItems; ++i) {
      const int worker = kFewWorkers - 1 - static_cast<int>(threadIdx.x);
      const int item = worker + i * kFewWorkers;
      tokens_[i] = item / kShareVectors;
      share_columns_[i] = item % kShareVectors * 4;
      columns_[i] = panel * kPanelColumns + cluster_rank() * kShareColumns + share_columns_[i];
      is_there_[i] = tokens_[i] < token_count && columns_[i] < family.tiles.column_count;
      if (is_there_[i]) firsts_[i] = family.first(tokens_[i], columns_[i]);
    }
  }

  __device__ void finish(const FewPlan& plan, const std::byte* x) const {
#pragma unroll
    for (int i = 0; i < kShareItems; ++i) {
      if (!is_there_[i]) continue;
      const float4 total[1] = {total_of(family_, plan, x, tokens_[i], share_columns_[i],
                                        Family::first_value(firsts_[i]))};
      family_.finish(tokens_[i], columns_[i], total);
    }
  }

 private:
  const Family& family_;
  int tokens_[kShareItems];
  int share_columns_[kShareItems];
  int columns_[kShareItems];
  bool is_there_[kShareItems];
  typename Family::First firsts_[kShareItems];
};

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class Family>
__global__ __launch_bounds__(kFewThreads) void block_product_few_kernel(
    const __grid_constant__ Family family, const __grid_constant__ FewPlan plan) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ FewBarriers barriers;
  std::byte* x = aligned_stages(shared);
  std::byte* stages = x + plan.x_bytes();
  const FewPart part(family.tiles, plan);
  if (threadIdx.x == kFewWorkers) {
    for (int stage = 0; stage < plan.stage_count; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], 1);
    }
    barrier_init_fence();
  }
  __syncthreads();
  start_next_kernel();
  if (threadIdx.x >= kFewWorkers) {
    // The weights never change, so they are read before the step is known.
    if (threadIdx.x == kFewWorkers) bring_weights(family, plan, part, barriers, stages);
    cluster_sync();
  } else {
    wait_previous_kernel();
    const int token_count = family.step.counts->token_count;
    gather_part(family, plan, part, x, token_count);
    publish_to_async();
    meet<kFewWorkers>(1);
    const FewShare<Family> share(family, part.panel, token_count);
    if (threadIdx.x < kWarpgroupThreads) multiply_part(plan, part, barriers, x, stages);
    cluster_sync();
    share.finish(plan, x);
  }
  cluster_sync();  // the others may still read from this block
#endif
}

}  // namespace

// plan: one that fits.
template <class Family>
Status block_product_few_cuda(const Family& family, const FewPlan& plan, bool is_overlapped,
                              cudaStream_t stream) {
  PLE_CUDA_TRY(cudaFuncSetAttribute(block_product_few_kernel<Family>,
                                    cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    plan.shared_bytes()));
  const Launch shape{.grid = dim3(static_cast<unsigned>(family.tiles.panel_count() * kFewRanks)),
                     .block_threads = kFewThreads,
                     .shared_bytes = plan.shared_bytes(),
                     .is_overlapped = is_overlapped,
                     .cluster_blocks = kFewRanks};
  PLE_CUDA_TRY(launch(block_product_few_kernel<Family>, shape, stream, family, plan));
  return {};
}

}  // namespace ple::kernels
