#pragma once

#include "kernels/block_product_few.cuh"
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

struct GemmaProduct : BlockProduct {
  const void* input = nullptr;
  HighwayType type = HighwayType::bf16;
  std::int32_t hidden = 0;
  float* products = nullptr;  // [token_capacity, column_count]

  struct Source {
    std::int64_t element = -1;  // of the input, negative: zeros
    int part = 0;
  };
  __device__ Source locate(int token, int block, int k) const {
    const int part = block / tiles.weight_block_count;
    const int in_row = (block - part * tiles.weight_block_count) * tiles.block_dim + k;
    return {in_row < hidden ? std::int64_t{token} * hidden + in_row : -1, part};
  }
  template <int kCount>
  __device__ void read(const Source (&from)[kCount], uint4 (&to)[kCount]) const {
    if (type == HighwayType::bf16) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const auto* at = static_cast<const std::uint16_t*>(input) + from[i].element;
        to[i] = from[i].element < 0 ? uint4{} : *reinterpret_cast<const uint4*>(at);
      }
      return;
    }
    Vector8<float> values[kCount];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const auto* at = static_cast<const float*>(input) + from[i].element;
      if (from[i].element >= 0) values[i] = {load4(at), load4(at + 4)};
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      std::uint32_t pairs[4] = {};
      for (int j = 0; j < 8 && from[i].element >= 0; ++j) {
        pairs[j / 2] |= std::uint32_t{part_of(values[i][j], from[i].part)} << (j % 2 * 16);
      }
      to[i] = {pairs[0], pairs[1], pairs[2], pairs[3]};
    }
  }

  struct First {};
  __device__ First first(int, int) const { return {}; }
  __device__ static float4 first_value(First) { return {}; }

  __device__ void finish(int token, int column, float4 total) const {
    store4(products + std::int64_t{token} * tiles.column_count + column, total);
  }
};

// The forms on Hopper, which are compiled for it alone.
Status product_few_cuda(const GemmaProduct& product, const FewPlan& plan, bool is_overlapped,
                        cudaStream_t stream);
Status product_many_cuda(const GemmaProduct& product, int multiprocessor_count, bool is_overlapped,
                         cudaStream_t stream);

}  // namespace ple::kernels
