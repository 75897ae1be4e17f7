#pragma once

#include <cstdint>

#include "kernels/device_math.cuh"
#include "kernels/e4m3_tiles.hpp"
#include "kernels/hopper.cuh"

// Four E4M3 codes in a word, so that few instructions make bf16 of them. A bf16 with a code's sign,
// and its other bits from bit 4 on, is the code's value times 2^-120. That is how one pair of codes
// stands in the halves of the word; another pair fills the gaps.

namespace ple::kernels {

// A code of each pair, in one half of the word.
__device__ inline std::uint32_t packed_half(std::uint32_t first, std::uint32_t second) {
  return (first & 0x80) << 8 | (first & 0x7F) << 4 | (second & 0x80) << 4 | (second & 0x70) << 8 |
         (second & 0x0F);
}

// 2^120 times the scale 2^(code - 127), in bf16; for codes up to kMaxWeightScale.
__device__ inline std::uint32_t factor_of_scale(std::uint8_t code) {
  return (std::uint32_t{code} + 120) << 7;
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

// The factors of a warp's slice in shared memory: those of 32 chunks, and the next 32 on their way.
// The whole warp calls.
class Factors {
 public:
  static constexpr int kWords = 2 * kFactorChunks;

  // ring: kWords of this warp.
  __device__ Factors(const std::uint32_t* slice, int chunk_count, const std::uint32_t* ring)
      : from_(slice + threadIdx.x % kWarpThreads),
        chunk_count_(chunk_count),
        ring_(kept(shared_address(ring))) {}
  // Of the first chunk; the ring is no more read.
  __device__ void begin() const {
    __syncwarp();
    copy(0);
    commit_copies();
    copy(kFactorChunks);
    commit_copies();
    wait_copies<1>();
    __syncwarp();
  }
  // Of an even chunk and the one after it: asked for in their order.
  __device__ uint2 words(int chunk) const {
    if (chunk % kFactorChunks == 0 && chunk > 0) {
      wait_copies<0>();
      __syncwarp();
      copy(chunk + kFactorChunks);
      commit_copies();
    }
    return load_shared8(ring_ + chunk % kWords * sizeof(std::uint32_t));
  }

 private:
  __device__ void copy(int first_chunk) const {
    if (first_chunk >= chunk_count_) return;
    const std::uint32_t place = first_chunk % kWords + threadIdx.x % kWarpThreads;
    copy_async<sizeof(std::uint32_t)>(ring_ + place * sizeof(std::uint32_t), from_ + first_chunk);
  }
  const std::uint32_t* from_;
  int chunk_count_;
  std::uint32_t ring_;
};

// A lane's part of a slice of one chunk, in codes and as the operand.
struct Fragments {
  uint4 codes[kBlocksPerChunk];

  // lane_codes: where this lane's first codes of a slice are in shared memory.
  __device__ void load(std::uint32_t lane_codes) {
#pragma unroll
    for (int i = 0; i < kBlocksPerChunk; ++i) {
      codes[i] = load_shared16(lane_codes + i * kE4m3HalfBytes);
    }
  }
  __device__ void unpack(std::uint32_t factors, std::uint32_t (&operand)[kChunk / 16][4]) const {
#pragma unroll
    for (int i = 0; i < kBlocksPerChunk; ++i) {
      const std::uint32_t factor = __byte_perm(factors, 0, i == 0 ? 0x1010 : 0x3232);
      unpack_codes(codes[i].x, factor, operand[2 * i][0], operand[2 * i][1]);
      unpack_codes(codes[i].y, factor, operand[2 * i][2], operand[2 * i][3]);
      unpack_codes(codes[i].z, factor, operand[2 * i + 1][0], operand[2 * i + 1][1]);
      unpack_codes(codes[i].w, factor, operand[2 * i + 1][2], operand[2 * i + 1][3]);
    }
  }
};

}  // namespace ple::kernels
