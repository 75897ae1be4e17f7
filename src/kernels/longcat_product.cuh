#pragma once

#include "kernels/block_few_plan.hpp"
#include "kernels/block_product.cuh"
#include "kernels/longcat_layer_cuda.hpp"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

// A block of the product is a table.
struct LongcatProduct : BlockProduct {
  RowView rows;
  const std::uint16_t* words = nullptr;
  void* output = nullptr;
  HighwayType output_type = HighwayType::bf16;
  float divisor = 1.0F;
  float reciprocal = 1.0F;

  __device__ std::uint64_t row(int token, int block) const {
    const SlotId slot = step.slots[std::int64_t{token} * tiles.block_count + block];
    return reinterpret_cast<std::uint64_t>(slot_row(rows, slot));
  }
  template <int kCount>
  __device__ void read(const std::uint64_t (&from)[kCount], int k, uint4 (&to)[kCount]) const {
    read_pieces(rows.encoding, from, k, to);
  }

  struct Token {
    const std::uint16_t* word;
    bool is_ignored;
  };
  __device__ Token token(int index) const {
    return {words + std::int64_t{step.tokens[index]} * tiles.column_count, step.flags[index] != 0};
  }

  using First = uint2;
  __device__ First first(const Token& token, int column) const {
    return *reinterpret_cast<const uint2*>(token.word + column);
  }
  __device__ static float4 first_value(First bits) {
    return {low_bf16(bits.x), high_bf16(bits.x), low_bf16(bits.y), high_bf16(bits.y)};
  }

  template <int kSlices>
  __device__ void finish(const Token& token, int index, int column,
                         const float4 (&totals)[kSlices]) const {
    const std::int64_t row = std::int64_t{index} * tiles.column_count;
#pragma unroll
    for (int i = 0; i < kSlices; ++i) {
      const int at = column + i * kSliceColumns;
      if (at >= tiles.column_count) return;
      const float4 value = token.is_ignored ? totals[i] : quotient(totals[i]);
      if (output_type == HighwayType::f32) {
        store4(static_cast<float*>(output) + row + at, value);
      } else {
        store4(static_cast<std::uint16_t*>(output) + row + at, value);
      }
    }
  }

  __device__ float4 quotient(float4 total) const {
    return {quotient(total.x), quotient(total.y), quotient(total.z), quotient(total.w)};
  }
  // total / divisor, correctly rounded, without the call that a division is.
  __device__ float quotient(float total) const {
    const float about = __fmul_rn(total, reciprocal);
    const float exact = __fmaf_rn(__fmaf_rn(-about, divisor, total), reciprocal, about);
    return isfinite(about) ? exact : about;
  }
};

// The forms on Hopper, which are compiled for it alone.
Status product_few_cuda(const LongcatProduct& product, const FewPlan& plan, bool is_overlapped,
                        cudaStream_t stream);
Status product_some_cuda(const LongcatProduct& product, const SomePlan& plan, bool is_overlapped,
                         cudaStream_t stream);
Status product_many_cuda(const LongcatProduct& product, int multiprocessor_count,
                         bool is_overlapped, cudaStream_t stream);

}  // namespace ple::kernels
