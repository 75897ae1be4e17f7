#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "device/cuda_device.hpp"
#include "kernels/engram_layer.hpp"
#include "kernels/ple_layer_cuda.hpp"

// The Engram layer on a CUDA device. What ple_layer_cuda.hpp says of launches, captures and bits
// holds here too.
//
// Activations quantised to E4M3 with a power of two for each 32 elements, and E4M3 weights with one
// for each 32x32 block, are exact in bf16. So the official FP8 product is, but for the order of its
// f32 sums, a bf16 product of the two, and one kernel serves both roundings.

namespace ple::kernels {

// How the device holds the product's weights; both give the same bits where both run.
enum class EngramWeightForm : std::int32_t {
  bf16 = 0,  // twice the bytes, for any device
  e4m3 = 1,  // as stored; for devices with wgmma
};

// The form for a device.
EngramWeightForm engram_weight_form(const CudaTraits& traits);

// What changes from step to step, at stable addresses.
struct EngramStepView {
  PleStepCounts* counts = nullptr;
  std::uint8_t* dead = nullptr;  // [token_capacity], not 0: takes no part
  SlotId* slots = nullptr;       // [token_capacity, column_count]; kNoTokenSlot, the first of a
                                 // token that is none. They stand last
};

// A step's block of bytes, as PleStepBlock.
struct EngramStepBlock {
  static std::size_t bytes(const EngramShape& shape, std::int32_t token_capacity);
  static EngramStepView view(std::byte* block, const EngramShape& shape,
                             std::int32_t token_capacity);
};

// The weights of one layer as the kernels read them, in one piece of device memory.
struct EngramWeightsCuda {
  const std::uint16_t* projection = nullptr;  // bf16: tiles, see ple_tiles.hpp
  const std::byte* codes = nullptr;           // e4m3: see e4m3_tiles.hpp, as the factors
  const std::uint32_t* factors = nullptr;
  const float* gate_scale = nullptr;  // [stream_count, hidden]: q_weight * k_weight

  static std::size_t bytes(const EngramShape& shape, EngramWeightForm form);
  static EngramWeightsCuda view(const std::byte* memory, const EngramShape& shape,
                                EngramWeightForm form);
};

// Of scales of 2^(code - 127) the largest that weights may have: times the largest E4M3 it is far
// inside bf16, and what the kernels multiply codes by is, too.
inline constexpr std::uint8_t kMaxWeightScale = 134;

struct PackEngramWeightsArgs {
  EngramShape shape;
  EngramWeightForm form = EngramWeightForm::e4m3;
  // Device memory. No code is NaN, no scale above kMaxWeightScale.
  const std::uint8_t* codes = nullptr;          // [(stream_count + 1) * hidden, embed_dim] E4M3
  const std::uint8_t* scales = nullptr;         // [that / 32, embed_dim / 32] E8M0
  const std::uint16_t* query_weight = nullptr;  // [stream_count, hidden] bf16
  const std::uint16_t* key_weight = nullptr;    // [stream_count, hidden] bf16
  std::byte* memory = nullptr;  // EngramWeightsCuda::bytes(shape, form), 1024-byte aligned
};

Status pack_engram_weights_cuda(const PackEngramWeightsArgs& args, cudaStream_t stream);

// An error that says why, for a geometry that the CUDA kernels do not run.
Status check_engram_shape_cuda(const EngramShape& shape);

struct EngramLayerCudaArgs {
  EngramShape shape;
  EngramRounding rounding;
  HighwayType highway_type = HighwayType::bf16;
  OutputMode output_mode = OutputMode::update;
  CudaTraits traits;
  EngramWeightForm form = EngramWeightForm::e4m3;
  EngramWeightsCuda weights;
  RowView rows;                            // readable by the device
  std::byte* step = nullptr;               // EngramStepBlock in device memory
  const std::byte* pinned_step = nullptr;  // where step is copied from first; null: nowhere
  const void* highway = nullptr;  // [token_capacity, stream_count, hidden], 16-byte aligned
  void* output = nullptr;         // the same shape and type; may be the highway itself
  std::byte* scratch = nullptr;   // engram_layer_scratch_bytes_cuda, 1024-byte aligned
  std::int32_t token_capacity = 0;
};

// Scratch of a step of up to token_capacity tokens; it holds nothing between steps.
std::size_t engram_layer_scratch_bytes_cuda(const EngramShape& shape, EngramRounding rounding,
                                            std::int32_t token_capacity);

// One step, as EngramLayerArgs describes it. Tokens beyond the block's token_count are not written.
Status engram_layer_cuda(const EngramLayerCudaArgs& args, cudaStream_t stream);

}  // namespace ple::kernels
