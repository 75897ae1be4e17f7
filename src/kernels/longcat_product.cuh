#pragma once

#include "kernels/block_product_few.cuh"
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

  struct Source {
    const std::byte* row;  // null: zeros
    int element;
  };
  __device__ Source locate(int token, int block, int k) const {
    if (k >= rows.encoding.dim) return {nullptr, 0};
    return {slot_row(rows, step.slots[std::int64_t{token} * tiles.block_count + block]), k};
  }
  template <int kCount>
  __device__ void read(const Source (&from)[kCount], uint4 (&to)[kCount]) const {
    read_pieces(rows.encoding, from, to);
  }

  using First = uint2;
  __device__ const std::uint16_t* word(int token) const {
    return words + std::int64_t{step.tokens[token]} * tiles.column_count;
  }
  __device__ First first(int token, int column) const {
    return *reinterpret_cast<const uint2*>(word(token) + column);
  }
  __device__ static float4 first_value(First bits) {
    return {low_bf16(bits.x), high_bf16(bits.x), low_bf16(bits.y), high_bf16(bits.y)};
  }

  __device__ void finish(int token, int column, float4 total) const {
    float4 value{__fdiv_rn(total.x, divisor), __fdiv_rn(total.y, divisor),
                 __fdiv_rn(total.z, divisor), __fdiv_rn(total.w, divisor)};
    if (step.flags[token] != 0) value = first_value(first(token, column));
    const std::int64_t at = std::int64_t{token} * tiles.column_count + column;
    if (output_type == HighwayType::f32) {
      store4(static_cast<float*>(output) + at, value);
    } else {
      store4(static_cast<std::uint16_t*>(output) + at, value);
    }
  }
};

// The forms on Hopper, which are compiled for it alone.
Status product_few_cuda(const LongcatProduct& product, const FewPlan& plan, bool is_overlapped,
                        cudaStream_t stream);
Status product_many_cuda(const LongcatProduct& product, int multiprocessor_count,
                         bool is_overlapped, cudaStream_t stream);

}  // namespace ple::kernels
