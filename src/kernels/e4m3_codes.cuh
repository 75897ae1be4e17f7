#pragma once

#include <cstdint>

#include "kernels/device_math.cuh"
#include "kernels/e4m3_tiles.hpp"

// Four E4M3 codes in a word, so that few instructions make bf16 of them. A bf16 with a code's sign,
// and its other bits from bit 4 on, is the code's value times 2^-120. That is how one pair of codes
// stands in the halves of the word; another pair fills the gaps.

namespace ple::kernels {

// A code of each pair, in one half of the word.
__device__ inline std::uint32_t packed_half(std::uint32_t first, std::uint32_t second) {
  return (first & 0x80) << 8 | (first & 0x7F) << 4 | (second & 0x80) << 4 | (second & 0x70) << 8 |
         (second & 0x0F);
}

// 2^120 times the scale 2^(code - 127), twice; for codes up to kMaxWeightScale.
__device__ inline std::uint32_t factor_of_scale(std::uint8_t code) {
  return (std::uint32_t{code} + 120) * 0x00800080;
}

__device__ inline std::uint32_t multiply_pairs(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

// The pairs of a word times their scale, in bf16: as exact as bf16 allows.
__device__ inline void unpack_codes(std::uint32_t word, std::uint32_t factor, std::uint32_t& first,
                                    std::uint32_t& second) {
  first = multiply_pairs(word & 0x87F087F0, factor);
  second = multiply_pairs((word << 4 & 0x80F080F0) | (word >> 4 & 0x07000700), factor);
}

// A lane's part of a slice of one chunk, in codes and as the operand.
struct Fragments {
  uint4 codes[kBlocksPerChunk];
  uint2 factors;

  __device__ void load(const std::byte* slice) {
    const auto* vectors = reinterpret_cast<const uint4*>(slice);
#pragma unroll
    for (int i = 0; i < kBlocksPerChunk; ++i) {
      codes[i] = vectors[i * kWarpThreads + threadIdx.x % kWarpThreads];
    }
    factors = *reinterpret_cast<const uint2*>(slice + kBlocksPerChunk * kE4m3HalfBytes);
  }
  __device__ void unpack(std::uint32_t (&operand)[kChunk / 16][4]) const {
#pragma unroll
    for (int i = 0; i < kBlocksPerChunk; ++i) {
      const std::uint32_t factor = i == 0 ? factors.x : factors.y;
      unpack_codes(codes[i].x, factor, operand[2 * i][0], operand[2 * i][1]);
      unpack_codes(codes[i].y, factor, operand[2 * i][2], operand[2 * i][3]);
      unpack_codes(codes[i].z, factor, operand[2 * i + 1][0], operand[2 * i + 1][1]);
      unpack_codes(codes[i].w, factor, operand[2 * i + 1][2], operand[2 * i + 1][3]);
    }
  }
};

}  // namespace ple::kernels
