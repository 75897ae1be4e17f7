#include "kernels/longcat_layer_cuda.hpp"

#include "kernels/block_product_step.cuh"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

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

}  // namespace

std::size_t longcat_layer_scratch_bytes_cuda(const LongcatShape& shape,
                                             std::int32_t token_capacity) {
  return longcat_tiles(shape).x_bytes(token_capacity);
}

Status longcat_layer_cuda(const LongcatLayerCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_longcat_shape_cuda(args.shape));
  LongcatProduct product;
  product.tiles = longcat_tiles(args.shape);
  product.weights = args.weights;
  product.x = reinterpret_cast<std::uint16_t*>(args.scratch);
  product.token_capacity = args.token_capacity;
  product.rounds_each = args.rounds_each;
  product.rows = args.rows;
  product.words = args.words;
  product.output = args.output;
  product.output_type = args.output_type;
  product.divisor = static_cast<float>(1 + args.shape.table_count);
  return block_product_step_cuda(product,
                                 {.traits = args.traits,
                                  .step = args.step,
                                  .pinned_step = args.pinned_step,
                                  .column_count = args.shape.table_count},
                                 stream);
}

}  // namespace ple::kernels
