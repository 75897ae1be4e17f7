#include "base/error.hpp"
#include "kernels/gemma_layer_cuda.hpp"

namespace ple::kernels {

BlockTiles gemma_tiles(const GemmaShape& shape, HighwayType type) {
  constexpr std::int32_t kBlocks = 4;
  constexpr std::int32_t kChains = 2;  // as many as share the product of few tokens
  constexpr std::int32_t kParts = 3;   // bf16 numbers in an f32
  BlockTiles tiles;
  tiles.column_count = shape.layer_count * shape.layer_dim;
  tiles.block_dim = (shape.hidden + kBlocks * kChunk - 1) / (kBlocks * kChunk) * kChunk;
  tiles.weight_block_count = (shape.hidden + tiles.block_dim - 1) / tiles.block_dim;
  tiles.block_count = tiles.weight_block_count * (type == HighwayType::f32 ? kParts : 1);
  tiles.chain_chunks = (tiles.chunk_count() + kChains - 1) / kChains;
  return tiles;
}

Status check_gemma_shape_cuda(const GemmaShape& shape) {
  if (shape.hidden > 0 && shape.hidden % 8 == 0 && shape.layer_count > 0 && shape.layer_dim > 0 &&
      shape.layer_dim % 8 == 0) {
    return {};
  }
  return error(StatusCode::unsupported,
               "Gemma on CUDA: hidden {} and {} layers of {}; hidden and the layers' width must be "
               "multiples of 8",
               shape.hidden, shape.layer_count, shape.layer_dim);
}

}  // namespace ple::kernels
