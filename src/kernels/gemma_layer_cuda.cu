#include "kernels/gemma_layer_cuda.hpp"

#include "kernels/block_product_step.cuh"
#include "kernels/carver.hpp"
#include "kernels/gemma_product.cuh"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

constexpr int kCombineWarps = 4;

struct CombineArgs {
  GemmaShape shape;
  GemmaScales scales;
  bool rounds_each = false;
  TokenStepView step;
  RowView rows;
  const float* products = nullptr;
  const std::uint16_t* norm_weight = nullptr;
  void* output = nullptr;
};

// Four elements of the projection's part, scaled.
__device__ float4 context(const CombineArgs& args, std::int64_t at) {
  const float4 product = load4(args.products + at);
  const float scale = args.scales.projection;
  if (!args.rounds_each) {
    return {product.x * scale, product.y * scale, product.z * scale, product.w * scale};
  }
  return stored<std::uint16_t>({round_bf16(product.x) * scale, round_bf16(product.y) * scale,
                                round_bf16(product.z) * scale, round_bf16(product.w) * scale});
}

__device__ float combined(const CombineArgs& args, float context, float root, std::uint16_t weight,
                          float row) {
  const float normed = __fmul_rn(__fmul_rn(context, root), bf16_value(weight));
  const float scaled = __fmul_rn(row, args.scales.row);
  if (!args.rounds_each) return __fmul_rn(__fadd_rn(normed, scaled), args.scales.sum);
  return __fmul_rn(round_bf16(round_bf16(normed) + round_bf16(scaled)), args.scales.sum);
}

// A warp has one layer of one token.
template <class T>
__global__ __launch_bounds__(kCombineWarps* kWarpThreads) void combine_kernel(
    const __grid_constant__ CombineArgs args) {
  wait_previous_kernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const std::int64_t index =
      std::int64_t{blockIdx.x} * kCombineWarps + static_cast<int>(threadIdx.x) / kWarpThreads;
  const std::int64_t token = index / args.shape.layer_count;
  if (token >= args.step.counts->token_count) return;
  const int first = static_cast<int>(index % args.shape.layer_count) * args.shape.layer_dim;
  const std::int64_t begin = token * args.shape.layer_count * args.shape.layer_dim + first;

  float squares = 0.0F;
  for (int i = lane * 4; i < args.shape.layer_dim; i += kWarpThreads * 4) {
    const float4 c = context(args, begin + i);
    squares = add_products(c, c, squares);
  }
  const float mean = warp_sum(squares) / static_cast<float>(args.shape.layer_dim);
  const float root = __frcp_rn(__fsqrt_rn(mean + args.shape.eps));

  const std::byte* row = slot_row(args.rows, args.step.slots[token]);
  for (int i = lane * 8; i < args.shape.layer_dim; i += kWarpThreads * 8) {
    Vector8<std::uint16_t> elements{};
    if (row != nullptr) elements.bits = row_elements8(args.rows.encoding, row, first + i);
    const float4 low = context(args, begin + i);
    const float4 high = context(args, begin + i + 4);
    const float c[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    float out[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      out[j] = combined(args, c[j], root, args.norm_weight[i + j], elements[j]);
    }
    reinterpret_cast<Vector8<T>*>(static_cast<T*>(args.output) + begin + i)[0] =
        Vector8<T>::of(out);
  }
}

struct Scratch {
  float* products = nullptr;
  std::uint16_t* x = nullptr;
  std::size_t bytes = 0;

  Scratch(std::byte* base, const GemmaShape& shape, HighwayType type, std::int32_t tokens) {
    const BlockTiles tiles = gemma_tiles(shape, type);
    Carver carver(base);
    x = carver.take<std::uint16_t>(tiles.x_bytes(tokens) / 2);
    products = carver.take<float>(static_cast<std::size_t>(tokens) *
                                  static_cast<std::size_t>(tiles.column_count));
    bytes = carver.used();
  }
};

template <class T>
Status combine(const CombineArgs& args, std::int32_t token_capacity, bool is_overlapped,
               cudaStream_t stream) {
  const std::int64_t warps = std::int64_t{token_capacity} * args.shape.layer_count;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>((warps + kCombineWarps - 1) / kCombineWarps)),
      .block_threads = kCombineWarps * kWarpThreads,
      .is_overlapped = is_overlapped};
  PLE_CUDA_TRY(launch(combine_kernel<T>, shape, stream, args));
  return {};
}

}  // namespace

std::size_t gemma_layer_scratch_bytes_cuda(const GemmaShape& shape, std::int32_t token_capacity) {
  return Scratch(nullptr, shape, HighwayType::f32, token_capacity).bytes;
}

Status gemma_layer_cuda(const GemmaLayerCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_gemma_shape_cuda(args.shape));
  if (args.token_capacity == 0) return {};
  const Scratch scratch(args.scratch, args.shape, args.type, args.token_capacity);
  GemmaProduct product;
  product.tiles = gemma_tiles(args.shape, args.type);
  product.weights = args.weights;
  product.x = scratch.x;
  product.token_capacity = args.token_capacity;
  product.input = args.input;
  product.type = args.type;
  product.hidden = args.shape.hidden;
  product.products = scratch.products;
  PLE_TRY(block_product_step_cuda(product,
                                  {.traits = args.traits,
                                   .step = args.step,
                                   .pinned_step = args.pinned_step,
                                   .column_count = 1},
                                  stream));
  const CombineArgs rest{.shape = args.shape,
                         .scales = args.scales,
                         .rounds_each = args.rounds_each,
                         .step = product.step,
                         .rows = args.rows,
                         .products = scratch.products,
                         .norm_weight = args.norm_weight,
                         .output = args.output};
  const bool is_overlapped = args.traits.has_overlapped_launch();
  return args.type == HighwayType::f32
             ? combine<float>(rest, args.token_capacity, is_overlapped, stream)
             : combine<std::uint16_t>(rest, args.token_capacity, is_overlapped, stream);
}

}  // namespace ple::kernels
