#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "device/cuda_device.hpp"
#include "kernels/ple_layer.hpp"

// The PLE layer on a CUDA device. Every launcher only enqueues: it never allocates, never waits and
// is legal under capture. A captured step serves any batch up to its capacity, because how many
// tokens and spans there really are is read from the step block when the kernels run.
//
// Bits: the product of a token sums its inner dimension in steps of 16, in order, in one f32
// accumulator, and the sums over channels are added in groups of kGroupColumns in a fixed tree; so
// on one device the output of a token depends on its own sequence alone, not on the other tokens
// of the step, on the form of the kernels, or on how the sequence was split into steps. Devices
// with and without wgmma round the product differently in the last bits.

namespace ple::kernels {

struct PleStepCounts {
  std::int32_t token_count = 0;
  std::int32_t span_count = 0;
  std::int32_t reserved[2] = {};
};

// What changes from step to step, at stable addresses.
struct PleStepView {
  PleStepCounts* counts = nullptr;
  PleSpan* spans = nullptr;            // [span_capacity], in the order of their tokens
  std::int32_t* token_span = nullptr;  // [token_capacity], the span of a token, -1 for none
  SlotId* slots = nullptr;             // [token_capacity, column_count]; kNoTokenSlot, the first
                                       // of a token that is none. They stand last
};

// A step's block of bytes: the host fills one in pinned memory, the kernels read that or a copy.
struct PleStepBlock {
  static std::size_t bytes(const PleShape& shape, std::int32_t token_capacity,
                           std::int32_t span_capacity);
  // The block's parts; block is 256-byte aligned.
  static PleStepView view(std::byte* block, const PleShape& shape, std::int32_t token_capacity,
                          std::int32_t span_capacity);
};

// The dense weights of one layer as the kernels read them, in one piece of device memory.
struct PleWeightsCuda {
  const std::uint16_t* projection = nullptr;  // tiles, see ple_tiles.hpp
  const float* gate_scale = nullptr;          // [stream_count, hidden]: (1+w_key)*(1+w_query)
  PleVectors vectors;                         // the value's bias stands right behind the keys'

  static std::size_t bytes(const PleShape& shape);
  // stored: the vectors that were packed, of which only norm_offset and whether there is a bias
  // matter.
  static PleWeightsCuda view(const std::byte* memory, const PleShape& shape,
                             const PleVectors& stored = {});
};

struct PackPleWeightsArgs {
  PleShape shape;
  const std::uint16_t* key = nullptr;    // [stream_count * hidden, embed_dim], device memory
  const std::uint16_t* value = nullptr;  // [hidden, embed_dim], device memory
  PleVectors vectors;                    // device or pinned memory
  std::byte* memory = nullptr;           // PleWeightsCuda::bytes(shape), 1024-byte aligned
};

// Brings the weights of a checkpoint into the form of PleWeightsCuda.
Status pack_ple_weights_cuda(const PackPleWeightsArgs& args, cudaStream_t stream);

// An error that says why, for a geometry that the CUDA kernels do not run.
Status check_ple_shape_cuda(const PleShape& shape);

struct PleLayerCudaArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::mixed;
  HighwayType highway_type = HighwayType::bf16;
  OutputMode output_mode = OutputMode::update;
  CudaTraits traits;
  PleWeightsCuda weights;
  RowView rows;                            // readable by the device
  std::byte* step = nullptr;               // PleStepBlock in device memory
  const std::byte* pinned_step = nullptr;  // where step is copied from first; null: nowhere
  const void* highway = nullptr;  // [token_capacity, stream_count, hidden], 16-byte aligned
  void* output = nullptr;         // the same shape and type; may be the highway itself
  std::byte* scratch = nullptr;   // ple_layer_scratch_bytes_cuda, 1024-byte aligned
  std::int32_t ring_length = 0;
  std::int32_t token_capacity = 0;
  std::int32_t span_capacity = 0;
};

// Scratch of a step of up to token_capacity tokens; it holds nothing between steps.
std::size_t ple_layer_scratch_bytes_cuda(const PleShape& shape, Arithmetic arithmetic,
                                         std::int32_t token_capacity);

// One step, as PleLayerArgs describes it. Tokens beyond the block's token_count, and tokens of no
// span, are not written.
Status ple_layer_cuda(const PleLayerCudaArgs& args, cudaStream_t stream);

struct PleRebuildCudaArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::mixed;
  CudaTraits traits;
  PleWeightsCuda weights;
  RowView rows;
  std::byte* step = nullptr;     // PleStepBlock with counts and slots, no spans
  const float* gamma = nullptr;  // [token_capacity, stream_count], readable by the device
  std::byte* ring = nullptr;
  std::byte* scratch = nullptr;
  std::int32_t ring_length = 0;
  std::int32_t entry_begin = 0;
  std::int32_t token_capacity = 0;
};

// Rebuilds the ring entries entry_begin .. entry_begin + token_count - 1 (mod ring_length) from
// their rows and gates, with the bits of the step that first made them.
Status ple_rebuild_ring_cuda(const PleRebuildCudaArgs& args, cudaStream_t stream);

// Slots are numbered as in RowView.
struct PlaceRowsArgs {
  const std::byte* rows = nullptr;  // [row_count, slot_bytes], device or pinned memory
  const SlotId* slots = nullptr;    // [row_count], likewise; a row with kZeroSlot goes nowhere
  std::byte* arena = nullptr;
  std::byte* staging = nullptr;
  std::uint32_t arena_slot_count = kZeroSlot;
  std::uint32_t slot_bytes = 0;
  std::int64_t row_count = 0;
};

// Copies rows into their slots in device memory.
Status place_rows_cuda(const PlaceRowsArgs& args, cudaStream_t stream);

}  // namespace ple::kernels
