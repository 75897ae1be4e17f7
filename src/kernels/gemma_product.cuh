#pragma once

#include "kernels/block_few_plan.hpp"
#include "kernels/block_product.cuh"
#include "kernels/gemma_layer_cuda.hpp"

namespace ple::kernels {

// The bf16 parts of an f32: what is left of it is rounded each time.
__device__ inline std::uint16_t part_of(float value, int part) {
  for (int i = 0; i < part; ++i) {
    const float rounded = round_bf16(value);
    value = isfinite(rounded) ? value - rounded : 0.0F;
  }
  return bf16_bits(value);
}

__device__ __noinline__ static uint4 parts_of(Vector8<float> values, int part) {
  std::uint32_t pairs[4] = {};
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    pairs[i / 2] |= std::uint32_t{part_of(values[i], part)} << (i % 2 * 16);
  }
  return {pairs[0], pairs[1], pairs[2], pairs[3]};
}

struct GemmaProduct : BlockProduct {
  const void* input = nullptr;
  HighwayType type = HighwayType::bf16;
  std::int32_t hidden = 0;
  float* products = nullptr;  // [token_capacity, column_count]

  // A row is its first element of the input, the chunk where it begins in its token, and its part.
  static constexpr int kChunkShift = 44;
  static constexpr int kPartShift = 60;

  __device__ std::uint64_t row(int token, int block) const {
    const int part = block / tiles.weight_block_count;
    const int begin = (block - part * tiles.weight_block_count) * tiles.block_dim;
    const auto element = static_cast<std::uint64_t>(std::int64_t{token} * hidden + begin);
    return element | static_cast<std::uint64_t>(begin / kChunk) << kChunkShift |
           static_cast<std::uint64_t>(part) << kPartShift;
  }
  template <int kCount>
  __device__ void read(const std::uint64_t (&from)[kCount], int k, uint4 (&to)[kCount]) const {
    if (type == HighwayType::bf16) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const auto* at = static_cast<const std::uint16_t*>(input) + element(from[i]) + k;
        to[i] = is_inside(from[i], k) ? *reinterpret_cast<const uint4*>(at) : uint4{};
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float* at = static_cast<const float*>(input) + element(from[i]) + k;
      Vector8<float> values{};
      if (is_inside(from[i], k)) values = {load4(at), load4(at + 4)};
      to[i] = parts_of(values, static_cast<int>(from[i] >> kPartShift));
    }
  }
  __device__ static std::uint64_t element(std::uint64_t row) {
    return row & ((std::uint64_t{1} << kChunkShift) - 1);
  }
  __device__ bool is_inside(std::uint64_t row, int k) const {
    return static_cast<int>(row >> kChunkShift & 0xFFFF) * kChunk + k < hidden;
  }

  struct Token {};
  __device__ Token token(int) const { return {}; }
  struct First {};
  __device__ First first(Token, int) const { return {}; }
  __device__ static float4 first_value(First) { return {}; }

  template <int kSlices>
  __device__ void finish(Token, int index, int column, const float4 (&totals)[kSlices]) const {
    float* row = products + std::int64_t{index} * tiles.column_count;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const int at = column + i * kSliceColumns;
      if (at < tiles.column_count) store4(row + at, totals[i]);
    }
  }
};

// The forms on Hopper, which are compiled for it alone.
Status product_few_cuda(const GemmaProduct& product, const FewPlan& plan, bool is_overlapped,
                        cudaStream_t stream);
Status product_some_cuda(const GemmaProduct& product, const SomePlan& plan, bool is_overlapped,
                         cudaStream_t stream);
Status product_many_cuda(const GemmaProduct& product, int multiprocessor_count, bool is_overlapped,
                         cudaStream_t stream);

}  // namespace ple::kernels
