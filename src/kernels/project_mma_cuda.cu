#include "device/cuda_check.hpp"
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
constexpr int kVectorBytes = 16;

__device__ std::uint32_t shared_at(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// The block copies bytes that are contiguous on both sides.
__device__ void copy_tile(std::byte* to, const std::byte* from, int bytes) {
  for (int at = static_cast<int>(threadIdx.x) * kVectorBytes; at < bytes;
       at += kBlockThreads * kVectorBytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_at(to + at)),
                 "l"(from + at)
                 : "memory");
  }
}

// Four 8 by 8 matrices; this lane names row lane % 16, and the half of 16 elements lane / 16.
__device__ void load_matrices(std::uint32_t (&out)[4], const std::byte* tile, int first_row,
                              int step) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int row = first_row + lane % 16;
  const int piece = (2 * step + lane / 16) ^ (row % 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_at(tile + row * kTileRowBytes + piece * kVectorBytes))
               : "memory");
}

__device__ void multiply(float* sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ void multiply_chunk(float (&sums)[kGroupColumns / 2], const std::byte* stage, int warp) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step) {
    std::uint32_t rows[4];
    load_matrices(rows, stage, warp * 16, step);
#pragma unroll
    for (int i = 0; i < kGroupSlices; ++i) {
      std::uint32_t columns[4];  // columns 16i + 0..7 and 8..15, each in two halves of 8 elements
      load_matrices(columns, stage + kRowBytes, 16 * i, step);
      multiply(&sums[8 * i], rows, columns[0], columns[2]);
      multiply(&sums[8 * i + 4], rows, columns[1], columns[3]);
    }
  }
}

__global__ __launch_bounds__(kBlockThreads) void project_mma_kernel(
    const __grid_constant__ ProjectArgs args) {
  extern __shared__ __align__(128) std::byte stages[];
  const PleTiles tiles(args.shape);
  const int block_rows = PleTiles::block_rows(args.token_capacity);
  const int group = args.group_begin + static_cast<int>(blockIdx.x);
  const int first_row = static_cast<int>(blockIdx.y) * kRows;
  wait_previous_kernel();
  start_next_kernel();
  const int token_count = args.counts->token_count;
  if (first_row >= token_count) return;
  const int row_count = min(kRows, (token_count - first_row + 7) / 8 * 8);

  const auto load_chunk = [&](int chunk) {
    if (chunk < tiles.chunk_count) {
      std::byte* stage = stages + chunk % kStages * kStageBytes;
      const std::int64_t tile_row =
          (std::int64_t{first_row / block_rows} * tiles.chunk_count + chunk) * block_rows +
          first_row % block_rows;
      copy_tile(stage,
                reinterpret_cast<const std::byte*>(args.embeddings) + tile_row * kTileRowBytes,
                row_count * kTileRowBytes);
      copy_tile(stage + kRowBytes,
                reinterpret_cast<const std::byte*>(args.projection) +
                    (std::int64_t{group} * tiles.chunk_count + chunk) * kGroupTileBytes,
                kGroupTileBytes);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };

  const int warp = static_cast<int>(threadIdx.x) / kWarpThreads;
  float sums[kGroupColumns / 2] = {};
  for (int chunk = 0; chunk + 1 < kStages; ++chunk) load_chunk(chunk);
  for (int chunk = 0; chunk < tiles.chunk_count; ++chunk) {
    asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
    __syncthreads();  // the chunk is there, and the stage before it has been read
    load_chunk(chunk + kStages - 1);
    multiply_chunk(sums, stages + chunk % kStages * kStageBytes, warp);
  }
  const std::int64_t token =
      first_row + warp * 16 + static_cast<int>(threadIdx.x) % kWarpThreads / kQuadThreads;
  finish_group(args, tiles, sums, group, token, token_count);
}

}  // namespace

Status project_mma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  PLE_CUDA_TRY(cudaFuncSetAttribute(project_mma_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    kSharedBytes));
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
