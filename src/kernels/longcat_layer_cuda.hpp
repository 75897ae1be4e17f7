#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "device/cuda_device.hpp"
#include "kernels/block_product.hpp"
#include "kernels/longcat_layer.hpp"

// LongCat's input embedding on a CUDA device. The launcher only enqueues and is legal under
// capture; how many tokens there are is read from the step block (token_step_cuda.hpp, a flag where
// a token is ignored, and all its slots kZeroSlot) when the kernels run. The output bits of a token
// do not depend on the other tokens of the step.

namespace ple::kernels {

// The product over the tables; its weights are packed table by table (block_weights_cuda.hpp).
BlockTiles longcat_tiles(const LongcatShape& shape);

// An error that says why, for a geometry that the CUDA kernels do not run.
Status check_longcat_shape_cuda(const LongcatShape& shape);

struct LongcatLayerCudaArgs {
  LongcatShape shape;
  bool rounds_each = false;
  HighwayType output_type = HighwayType::bf16;
  CudaTraits traits;
  const std::uint16_t* words = nullptr;    // [vocab_size, hidden] bf16 bits
  const std::uint16_t* weights = nullptr;  // tiles, 1024-byte aligned
  RowView rows;
  std::byte* step = nullptr;               // TokenStepBlock in device memory
  const std::byte* pinned_step = nullptr;  // where the step's block is first
  void* output = nullptr;                  // [token_capacity, hidden], 16-byte aligned
  std::byte* scratch = nullptr;            // 1024-byte aligned
  std::int32_t token_capacity = 0;
};

// Scratch of a step of up to token_capacity tokens; it holds nothing between steps.
std::size_t longcat_layer_scratch_bytes_cuda(const LongcatShape& shape,
                                             std::int32_t token_capacity);

// One step, as LongcatLayerArgs describes it.
Status longcat_layer_cuda(const LongcatLayerCudaArgs& args, cudaStream_t stream);

}  // namespace ple::kernels
