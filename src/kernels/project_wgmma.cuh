#pragma once

#include "kernels/ple_epilogue.cuh"
#include "kernels/wgmma.cuh"

// What the products on Hopper share: a ring of stages in shared memory that one producer thread
// fills by bulk copies and consumer warpgroups multiply.

namespace ple::kernels {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kWarpgroupRows = 64;  // of one wgmma
inline constexpr int kTileAlignment = 1024;
inline constexpr int kStepsPerChunk = kChunk / 16;

// A place in the ring and the parity of its barriers' phase.
template <int kStages>
struct StageCursor {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void advance() {
    if (++stage < kStages) return;
    stage = 0;
    parity ^= 1;
  }
  __device__ void advance(int count) {
    stage += count;
    while (stage >= kStages) {
      stage -= kStages;
      parity ^= 1;
    }
  }
};

// full: the stage's copies have arrived; empty: its consumers have read it.
template <int kStages>
struct StageBarriers {
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
};

__device__ inline std::byte* aligned_stages(std::byte* shared) {
  return shared + (-shared_address(shared) & (kTileAlignment - 1));
}

// The token row of this lane's first accumulators in its warpgroup's tile.
__device__ inline int accumulator_row() {
  const int warp = static_cast<int>(threadIdx.x) % kWarpgroupThreads / kWarpThreads;
  return warp * 16 + static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
// Begins the product of a chunk of kColumns columns; rows, columns: what operand_begin makes of
// where they are.
template <int kColumns>
__device__ inline void start_chunk(float* sums, std::uint32_t rows, std::uint32_t columns,
                                   bool is_first) {
  wgmma_begin();
#pragma unroll
  for (int step = 0; step < kStepsPerChunk; ++step) {
    wgmma<kColumns>(sums, operand_at(rows + step * kOperandStep),
                    operand_at(columns + step * kOperandStep), is_first && step == 0);
  }
  wgmma_commit();
}
// The same of tiles; rows: the warpgroup's.
template <int kColumns>
__device__ inline void start_chunk(float* sums, const std::byte* rows, const std::byte* columns,
                                   bool is_first) {
  start_chunk<kColumns>(sums, operand_begin(shared_address(rows)),
                        operand_begin(shared_address(columns)), is_first);
}
#endif  // __CUDA_ARCH_FEAT_SM90_ALL

// Where the embeddings of the tokens from row on stand in chunk 0, and how far it is to the next
// chunk. A tile's rows lie in one block.
struct EmbeddingRows {
  const std::byte* from;
  std::int64_t chunk_bytes;
  __device__ EmbeddingRows(const ProjectArgs& args, const PleTiles& tiles, int row) {
    const TokenRows rows(args.token_capacity, tiles.chunk_count, row);
    chunk_bytes = rows.chunk_bytes;
    from = reinterpret_cast<const std::byte*>(args.embeddings) + rows.begin;
  }
};

}  // namespace ple::kernels
