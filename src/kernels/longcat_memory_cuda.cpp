#include "base/error.hpp"
#include "kernels/longcat_layer_cuda.hpp"

namespace ple::kernels {

BlockTiles longcat_tiles(const LongcatShape& shape) {
  constexpr std::int32_t kChains = 4;  // as many as share the product of few tokens
  BlockTiles tiles{.column_count = shape.hidden,
                   .block_dim = shape.row_dim,
                   .block_count = shape.table_count,
                   .weight_block_count = shape.table_count};
  tiles.chain_chunks = (tiles.chunk_count() + kChains - 1) / kChains;
  return tiles;
}

Status check_longcat_shape_cuda(const LongcatShape& shape) {
  if (shape.hidden > 0 && shape.hidden % 8 == 0 && shape.row_dim > 0 && shape.table_count > 0) {
    return {};
  }
  return error(StatusCode::unsupported,
               "LongCat on CUDA: hidden {} and {} rows of {}; hidden must be a multiple of 8",
               shape.hidden, shape.table_count, shape.row_dim);
}

}  // namespace ple::kernels
