#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/async_copies.cuh"
#include "kernels/device_math.cuh"
#include "kernels/ple_tiles.hpp"

// Asynchronous copies and matrix products of a warp, as every device since sm_80 has them.

namespace ple::kernels {

inline constexpr int kVectorBytes = 16;

// The block copies bytes that are contiguous on both sides.
template <int kThreads>
__device__ inline void copy_to_shared(std::byte* to, const std::byte* from, int bytes) {
  for (int at = static_cast<int>(threadIdx.x) * kVectorBytes; at < bytes;
       at += kThreads * kVectorBytes) {
    copy_async_once(shared_address(to + at), from + at);
  }
}

// Four 8 by 8 matrices; this lane names row lane % 16, and the half of 16 elements lane / 16.
__device__ inline void load_matrices(std::uint32_t (&out)[4], const std::byte* tile, int first_row,
                                     int step) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int row = first_row + lane % 16;
  const int piece = (2 * step + lane / 16) ^ (row % 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(shared_address(tile + row * kTileRowBytes + piece * kVectorBytes))
               : "memory");
}

__device__ inline void multiply_16x8(float* sums, const std::uint32_t (&a)[4], std::uint32_t b0,
                                     std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Adds a chunk's product of the warp's 16 rows and kSums / 8 slices of columns.
template <int kSums>
__device__ inline void multiply_chunk(float (&sums)[kSums], const std::byte* rows_tile,
                                      const std::byte* columns_tile, int warp) {
#pragma unroll
  for (int step = 0; step < kChunk / 16; ++step) {
    std::uint32_t rows[4];
    load_matrices(rows, rows_tile, warp * 16, step);
#pragma unroll
    for (int i = 0; i < kSums / 8; ++i) {
      std::uint32_t columns[4];  // columns 16i + 0..7 and 8..15, each in two halves of 8 elements
      load_matrices(columns, columns_tile, 16 * i, step);
      multiply_16x8(&sums[8 * i], rows, columns[0], columns[2]);
      multiply_16x8(&sums[8 * i + 4], rows, columns[1], columns[3]);
    }
  }
}

}  // namespace ple::kernels
