#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "device/cuda_device.hpp"
#include "kernels/block_product.hpp"
#include "kernels/gemma_layer.hpp"

// Gemma's per-layer inputs on a CUDA device. The launcher only enqueues and is legal under capture;
// how many tokens there are is read from the step block (token_step_cuda.hpp) when the kernels run.
// The output bits of a token do not depend on the other tokens of the step.
//
// An f32 input is the sum of three bf16 numbers, exactly: it meets the weights three times.

namespace ple::kernels {

// The product of the projection with an input of that type. The weights' blocks (block_weights_
// cuda.hpp) are the same for both: block b has columns b * block_dim of the projection on.
BlockTiles gemma_tiles(const GemmaShape& shape, HighwayType type);

// An error that says why, for a geometry that the CUDA kernels do not run.
Status check_gemma_shape_cuda(const GemmaShape& shape);

struct GemmaLayerCudaArgs {
  GemmaShape shape;
  GemmaScales scales;
  bool rounds_each = false;
  HighwayType type = HighwayType::bf16;  // of input and output
  CudaTraits traits;
  const std::uint16_t* weights = nullptr;      // tiles, 1024-byte aligned
  const std::uint16_t* norm_weight = nullptr;  // [layer_dim] bf16 bits
  RowView rows;
  std::byte* step = nullptr;               // TokenStepBlock in device memory
  const std::byte* pinned_step = nullptr;  // where the step's block is first
  const void* input = nullptr;             // [token_capacity, hidden], 16-byte aligned
  void* output = nullptr;        // [token_capacity, layer_count, layer_dim], 16-byte aligned
  std::byte* scratch = nullptr;  // 1024-byte aligned
  std::int32_t token_capacity = 0;
};

// Scratch of a step of up to token_capacity tokens; it holds nothing between steps.
std::size_t gemma_layer_scratch_bytes_cuda(const GemmaShape& shape, std::int32_t token_capacity);

// One step, as GemmaLayerArgs describes it.
Status gemma_layer_cuda(const GemmaLayerCudaArgs& args, cudaStream_t stream);

}  // namespace ple::kernels
