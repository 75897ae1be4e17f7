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
constexpr int kFewBatch = 8;  // pieces that a thread has on their way
constexpr int kShareColumns = kPanelColumns / kFewRanks;
constexpr int kShareVectors = kShareColumns / 4;
constexpr int kShareItems =  // vectors of four totals of a thread
    (kMaxFewTokens * kShareVectors + kFewThreads - 1) / kFewThreads;
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

__device__ inline void copy_weights(const BlockProduct& product, const FewPart& part, int chunk,
                                    std::byte* stage, std::uint64_t* full) {
  barrier_expect(full, kPanelTileBytes);
  bulk_copy(stage, weight_tile(product, part.panel, part.first_block * part.block_chunks + chunk),
            kPanelTileBytes, full);
  barrier_arrive(full);
}

template <class Family>
__device__ void gather_part(const Family& family, const FewPlan& plan, const FewPart& part,
                            std::byte* x, int token_count) {
  const int block_pieces = part.block_chunks * kChunkPieces;
  const int token_pieces = part.block_count * block_pieces;
  const int piece_count = token_count * token_pieces;
  for (int begin = static_cast<int>(threadIdx.x); begin < piece_count;
       begin += kFewBatch * kFewThreads) {
    typename Family::Source sources[kFewBatch] = {};
    int places[kFewBatch];
#pragma unroll
    for (int i = 0; i < kFewBatch; ++i) {
      const int piece = begin + i * kFewThreads;
      if (piece >= piece_count) continue;
      const int token = piece / token_pieces;
      const int block = (piece - token * token_pieces) / block_pieces;
      const int in_block = piece - token * token_pieces - block * block_pieces;
      sources[i] = family.locate(token, part.first_block + block, in_block * kPiece);
      places[i] = block * plan.block_stride +
                  (in_block / kChunkPieces * plan.rows + token) * kTileRowBytes +
                  piece_place(in_block, token) * 16;
    }
    uint4 pieces[kFewBatch];
    family.read(sources, pieces);
#pragma unroll
    for (int i = 0; i < kFewBatch; ++i) {
      if (begin + i * kFewThreads < piece_count) {
        *reinterpret_cast<uint4*>(x + places[i]) = pieces[i];
      }
    }
  }
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
  int stage = 0;
  std::uint32_t parity = 0;
  for (int block = 0; block < part.block_count; ++block) {
    int previous_stage = -1;
    for (int chunk = 0; chunk < part.block_chunks; ++chunk) {
      barrier_wait(&barriers.full[stage], parity);
      const std::uint64_t rows =
          operand(x + block * plan.block_stride + chunk * plan.rows * kTileRowBytes);
      const std::uint64_t columns = operand(stages + stage * kPanelTileBytes);
      wgmma_begin();
#pragma unroll
      for (int step = 0; step < kStepsPerChunk; ++step) {
        wgmma<kPanelColumns>(sums, rows + step * kOperandStep, columns + step * kOperandStep,
                             chunk == 0 && step == 0);
      }
      wgmma_commit();
      wgmma_wait<1>();  // the chunk before this one has been read
      if (previous_stage >= 0 && is_leader) barrier_arrive(&barriers.empty[previous_stage]);
      previous_stage = stage;
      if (++stage == plan.stage_count) stage = 0, parity ^= 1;
    }
    wgmma_wait<0>();
    if (is_leader) barrier_arrive(&barriers.empty[previous_stage]);
    warpgroup_sync();  // the block's x has been read by all
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

// This thread's vectors of totals in the share of the block: what they begin with, and their end.
// The last warps come first, those that do not multiply.
template <class Family>
class FewShare {
 public:
  __device__ FewShare(const Family& family, int panel, int token_count) : family_(family) {
#pragma unroll
    for (int i = 0; i < kShareItems; ++i) {
      const int item = kFewThreads - 1 - static_cast<int>(threadIdx.x) + i * kFewThreads;
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
      const float4 total = total_of(family_, plan, x, tokens_[i], share_columns_[i],
                                    Family::first_value(firsts_[i]));
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
  const bool is_producer = threadIdx.x == kWarpgroupThreads;
  if (is_producer) {
    for (int stage = 0; stage < plan.stage_count; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], 1);
    }
    barrier_init_fence();
    // The weights never change, so they are read before the step is known.
    for (int chunk = 0; chunk < min(plan.stage_count, part.chunk_count()); ++chunk) {
      copy_weights(family, part, chunk, stages + chunk * kPanelTileBytes, &barriers.full[chunk]);
    }
  }
  start_next_kernel();
  wait_previous_kernel();
  const int token_count = family.step.counts->token_count;
  gather_part(family, plan, part, x, token_count);
  publish_to_async();
  __syncthreads();
  const FewShare<Family> share(family, part.panel, token_count);
  if (threadIdx.x < kWarpgroupThreads) {
    multiply_part(plan, part, barriers, x, stages);
  } else if (is_producer) {
    int stage = 0;
    std::uint32_t parity = 0;
    for (int chunk = plan.stage_count; chunk < part.chunk_count(); ++chunk) {
      barrier_wait(&barriers.empty[stage], parity);
      copy_weights(family, part, chunk, stages + stage * kPanelTileBytes, &barriers.full[stage]);
      if (++stage == plan.stage_count) stage = 0, parity ^= 1;
    }
  }
  cluster_sync();
  share.finish(plan, x);
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
