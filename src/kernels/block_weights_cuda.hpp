#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.hpp"
#include "kernels/block_product.hpp"

namespace ple::kernels {

struct PackBlockArgs {
  BlockTiles tiles;
  std::int32_t block_index = 0;
  const std::uint16_t* from = nullptr;  // bf16 bits [column_count, stride], device memory
  std::int64_t stride = 0;
  std::int32_t element_count = 0;    // of a row that exist; the rest of the block is zero
  std::uint16_t* weights = nullptr;  // tiles.weight_bytes(), 1024-byte aligned
};

// Brings one block of weights into its tiles.
Status pack_block_cuda(const PackBlockArgs& args, cudaStream_t stream);

}  // namespace ple::kernels
