#include "device/cuda_check.hpp"
#include "kernels/mma.cuh"
#include "kernels/ple_epilogue.cuh"

// The product on devices without wgmma: 64 tokens by one group a block, four stages of
// asynchronous copies, each warp 16 tokens by mma.

namespace ple::kernels {

namespace {

constexpr int kRows = 64;
constexpr int kWarps = kRows / 16;
constexpr int kBlockThreads = kWarps * kWarpThreads;
constexpr int kStages = 4;
constexpr int kRowBytes = kRows * kTileRowBytes;
constexpr int kStageBytes = kRowBytes + kGroupTileBytes;
constexpr int kSharedBytes = kStages * kStageBytes;

__global__ __launch_bounds__(kBlockThreads) void project_mma_kernel(
    const __grid_constant__ ProjectArgs args) {
  extern __shared__ __align__(128) std::byte stages[];
  const PleTiles tiles(args.shape);
  const int group = args.group_begin + static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = args.counts->token_count;
  if (first_row >= token_count) return;
  const TokenRows rows(args.token_capacity, tiles.chunk_count, first_row);
  const int row_count = min(kRows, (token_count - first_row + 7) / 8 * 8);

  const auto load_chunk = [&](int chunk) {
    if (chunk < tiles.chunk_count) {
      std::byte* stage = stages + chunk % kStages * kStageBytes;
      copy_to_shared<kBlockThreads>(
          stage, reinterpret_cast<const std::byte*>(args.embeddings) + rows.at(chunk),
          row_count * kTileRowBytes);
      copy_to_shared<kBlockThreads>(
          stage + kRowBytes,
          reinterpret_cast<const std::byte*>(args.projection) + tiles.projection_at(chunk, group),
          kGroupTileBytes);
    }
    commit_copies();
  };

  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  float sums[kGroupColumns / 2] = {};
  for (int chunk = 0; chunk + 1 < kStages; ++chunk) load_chunk(chunk);
  for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
    wait_copies<kStages - 2>();
    __syncthreads();  // the chunk is there, and the stage before it has been read
    load_chunk(chunk + kStages - 1);
    const std::byte* stage = stages + chunk % kStages * kStageBytes;
    multiply_chunk(sums, stage, stage + kRowBytes, warp);
  }
  const std::int64_t token =
      first_row + warp * 16 + static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads;
  finish_group(args, tiles, sums, group, token, token_count);
}

}  // namespace

Status project_mma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int row_tiles = (args.token_capacity + kRows - 1) / kRows;
  const Launch shape{.grid = dim3(static_cast<unsigned>(args.group_end - args.group_begin),
                                  static_cast<unsigned>(row_tiles)),
                     .block_threads = kBlockThreads,
                     .shared_bytes = kSharedBytes,
                     .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(project_mma_kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
