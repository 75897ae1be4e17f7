#include "kernels/longcat_layer_cuda.hpp"

#include "kernels/block_product_step.cuh"
#include "kernels/longcat_product.cuh"

namespace ple::kernels {

std::size_t longcat_layer_scratch_bytes_cuda(const LongcatShape& shape,
                                             std::int32_t token_capacity) {
  return longcat_tiles(shape).x_bytes(token_capacity);
}

Status longcat_layer_cuda(const LongcatLayerCudaArgs& args, cudaStream_t stream) {
  PLE_TRY(check_longcat_shape_cuda(args.shape));
  LongcatProduct product;
  product.tiles = longcat_tiles(args.shape);
  if (args.rounds_each) product.tiles.chain_chunks = product.tiles.block_chunks();
  product.weights = args.weights;
  product.x = reinterpret_cast<std::uint16_t*>(args.scratch);
  product.token_capacity = args.token_capacity;
  product.rounds_each = args.rounds_each;
  product.rows = args.rows;
  product.words = args.words;
  product.output = args.output;
  product.output_type = args.output_type;
  product.divisor = static_cast<float>(1 + args.shape.table_count);
  product.reciprocal = 1.0F / product.divisor;
  return block_product_step_cuda(product,
                                 {.traits = args.traits,
                                  .step = args.step,
                                  .pinned_step = args.pinned_step,
                                  .column_count = args.shape.table_count},
                                 stream);
}

}  // namespace ple::kernels
