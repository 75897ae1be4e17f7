#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_product.cuh"
#include "kernels/mma.cuh"

// The product of block_product.cuh on devices without wgmma: 64 tokens by one panel a block, four
// stages of asynchronous copies, each warp 16 tokens by mma.

namespace ple::kernels {

namespace {

constexpr int kMmaRows = 64;
constexpr int kMmaThreads = kMmaRows / 16 * kWarpThreads;
constexpr int kMmaStages = 4;
constexpr int kMmaRowBytes = kMmaRows * kTileRowBytes;
constexpr int kMmaStageBytes = kMmaRowBytes + kPanelTileBytes;

template <class Family>
__global__ __launch_bounds__(kMmaThreads, 2) void block_product_mma_kernel(
    const __grid_constant__ Family family) {
  extern __shared__ __align__(128) std::byte stages[];
  const int panel = static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kMmaRows;
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = family.step.counts->token_count;
  if (first_row >= token_count) return;
  const int row_bytes = min(kMmaRows, (token_count - first_row + 7) / 8 * 8) * kTileRowBytes;
  const int chunk_count = family.tiles.chunk_count();
  const auto load_chunk = [&](int chunk) {
    if (chunk < chunk_count) {
      std::byte* stage = stages + chunk % kMmaStages * kMmaStageBytes;
      copy_to_shared<kMmaThreads>(stage, x_tile(family, first_row, chunk), row_bytes);
      copy_to_shared<kMmaThreads>(stage + kMmaRowBytes, weight_tile(family, panel, chunk),
                                  kPanelTileBytes);
    }
    commit_copies();
  };

  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int token = first_row + warp * 16 + lane / kQuadThreads;
  const int column = panel * kPanelColumns + lane % kQuadThreads * 4;
  float totals[kPanelColumns / 2];
  const Firsts<Family, kPanelSlices> firsts(family, token, column, token_count);
  firsts.expand(totals);
  for (int i = 0; i + 1 < kMmaStages; ++i) load_chunk(i);
  const int chain_chunks = family.tiles.chain_chunks;
  for (int begin = 0; begin < chunk_count; begin += chain_chunks) {
    float sums[kPanelColumns / 2] = {};
    for (int chunk = begin; chunk < min(begin + chain_chunks, chunk_count); ++chunk) {
      wait_copies<kMmaStages - 2>();
      __syncthreads();  // the chunk is there, and the stage before it has been read
      load_chunk(chunk + kMmaStages - 1);
      const std::byte* stage = stages + chunk % kMmaStages * kMmaStageBytes;
      multiply_chunk(sums, stage, stage + kMmaRowBytes, warp);
    }
    add_chains(totals, sums, family.rounds_each);
  }
  finish_rows(family, totals, firsts.tokens, token, column, token_count);
}

}  // namespace

template <class Family>
Status block_product_mma_cuda(const Family& family, bool is_overlapped, cudaStream_t stream) {
  constexpr int kSharedBytes = kMmaStages * kMmaStageBytes;
  const int row_tiles = (family.token_capacity + kMmaRows - 1) / kMmaRows;
  const Launch shape{.grid = dim3(static_cast<unsigned>(family.tiles.panel_count()),
                                  static_cast<unsigned>(row_tiles)),
                     .block_threads = kMmaThreads,
                     .shared_bytes = kSharedBytes,
                     .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(block_product_mma_kernel<Family>, shape, stream, family));
  return {};
}

}  // namespace ple::kernels
