#pragma once

#include <cuda_runtime_api.h>

#include "kernels/ple_layer_cuda.hpp"
#include "kernels/ple_tiles.hpp"

// The stages of ple_layer_cuda, in the order of their launches. is_overlapped: the kernel is
// launched before the one ahead of it in the stream has ended, and waits for it by itself.

namespace ple::kernels {

// Vectors of a step's block that are on their way to the device. Out of pinned memory the last byte
// of a small block is there sooner than by the copy engine.
struct StepCopy {
  const uint4* from = nullptr;
  uint4* to = nullptr;
  std::int32_t count = 0;
};

// The step may lie in pinned memory, and is copied to the device meanwhile.
struct GatherEmbeddingsArgs {
  RowView rows;
  StepCopy copy;
  const SlotId* slots = nullptr;        // [token_capacity, column_count]; kNoTokenSlot: no token
  std::uint16_t* embeddings = nullptr;  // tiles, zero from embed_dim on
  std::int32_t embed_dim = 0;
  std::int32_t column_count = 0;
  std::int32_t token_capacity = 0;
  bool is_packed = false;  // of one token: no rows between its tiles
  bool quantizes = false;  // each 32 elements to what FP8 keeps of them (EngramRounding)
};

Status gather_embeddings_cuda(const GatherEmbeddingsArgs& args, cudaStream_t stream);

// A step whose tokens take turns in a buffer is cut into panels of panel_tokens.
inline constexpr std::int32_t kMaxPanels = 2;

// How many of the step's tokens stand in each: panels [kMaxPanels].
Status count_panels_cuda(const PleStepCounts* step, PleStepCounts* panels,
                         std::int32_t panel_tokens, bool is_overlapped, cudaStream_t stream);

// Sums over a slice or a group of columns of one token.
struct ColumnSums {
  float dot = 0.0F;      // of k * (1+w_key) * (1+w_query) * R; of values: of v^2
  float key = 0.0F;      // of k^2
  float highway = 0.0F;  // of R^2
  float reserved = 0.0F;
};

// What the product leaves of a token: sums of its groups, or, where the groups are split over
// blocks, of their slices. A group's sum is that of its slices in order, whoever takes it. Lanes
// read neighbouring groups. Those of values are of v^2 alone, and of their slices stand as floats.
struct TokenSums {
  // Of each token [group_count]; or [kGroupSlices, key_group_count], then floats of the values
  // [kGroupSlices, groups_per_stream].
  ColumnSums* data = nullptr;
  std::int32_t sums_per_group = 1;  // or kGroupSlices
};
// How many ColumnSums a token takes.
constexpr std::int32_t sums_per_token(const PleTiles& tiles, std::int32_t sums_per_group) {
  constexpr std::int32_t kFloats = sizeof(ColumnSums) / sizeof(float);
  if (sums_per_group == 1) return tiles.group_count;
  return kGroupSlices * tiles.key_group_count() +
         (kGroupSlices * tiles.groups_per_stream + kFloats - 1) / kFloats;
}

// Where the device has wgmma, steps up to kMaxSlicedTokens are split by slices over the
// multiprocessors, and those up to kMaxSliceSumTokens into tiles of slices, not of groups.
inline constexpr std::int32_t kMaxSlicedTokens = 64;
inline constexpr std::int32_t kMaxSliceSumTokens = 256;
constexpr std::int32_t sums_per_group(bool has_wgmma, std::int32_t token_capacity) {
  return has_wgmma && token_capacity <= kMaxSliceSumTokens ? kGroupSlices : 1;
}

struct ProjectArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::mixed;
  HighwayType highway_type = HighwayType::bf16;
  const PleStepCounts* counts = nullptr;
  const std::uint16_t* embeddings = nullptr;
  const std::uint16_t* projection = nullptr;
  const std::byte* codes = nullptr;        // instead of projection, for project_e4m3_wgmma_cuda
  const std::uint32_t* factors = nullptr;  // of the codes
  const float* gate_scale = nullptr;
  const std::uint16_t* bias = nullptr;  // [(stream_count + 1) * hidden] bf16, or null
  const void* highway = nullptr;        // null: no sums of keys, as in reference
  void* values = nullptr;               // [token_capacity, hidden], f32 in float32, else bf16
  std::uint16_t* keys = nullptr;        // [token_capacity, stream_count, hidden] bf16, in reference
  TokenSums sums;                       // not in reference
  std::int32_t token_capacity = 0;
  bool is_packed = false;        // as in GatherEmbeddingsArgs
  std::int32_t group_begin = 0;  // the groups to compute
  std::int32_t group_end = 0;
  bool rounds_keys = false;  // to bf16 before their sums are taken
  std::int32_t multiprocessor_count = 0;
};

// Up to kFewProductTokens of embeddings of up to kFewProductChunks; those of one are packed. It
// leaves sums_per_group sums.
inline constexpr std::int32_t kFewProductTokens = 8;
inline constexpr std::int32_t kFewProductChunks = 40;
constexpr bool has_few_product(bool has_wgmma, const PleShape& shape, std::int32_t token_capacity) {
  return has_wgmma && token_capacity <= kFewProductTokens &&
         PleTiles(shape).chunk_count <= kFewProductChunks;
}
constexpr bool has_packed_rows(bool has_wgmma, const PleShape& shape, std::int32_t token_capacity) {
  return token_capacity == 1 && has_few_product(has_wgmma, shape, token_capacity);
}
Status project_few_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream);
// The first up to kMaxSlicedTokens. They leave sums_per_group sums.
Status project_sliced_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream);
Status project_tiled_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream);
Status project_mma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream);

// Leaves the sums of slices for any number of tokens, and none of the values.
Status project_e4m3_wgmma_cuda(const ProjectArgs& args, bool is_overlapped, cudaStream_t stream);

struct GateArgs {
  PleShape shape;
  HighwayType highway_type = HighwayType::bf16;
  const PleStepCounts* counts = nullptr;
  TokenSums sums;
  const std::uint16_t* keys = nullptr;  // reference
  const void* values = nullptr;
  const void* highway = nullptr;  // reference
  PleVectors vectors;             // reference
  float* gates = nullptr;         // [token_capacity, 2, stream_count]: gamma, then q
  std::int32_t token_capacity = 0;
};

Status gate_cuda(const GateArgs& args, bool is_overlapped, cudaStream_t stream);
Status gate_reference_cuda(const GateArgs& args, bool is_overlapped, cudaStream_t stream);

struct MixArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::mixed;
  HighwayType highway_type = HighwayType::bf16;
  OutputMode output_mode = OutputMode::update;
  PleStepView step;  // in device memory
  PleVectors vectors;
  const void* values = nullptr;
  TokenSums sums;  // the gates are taken from these where gates is null
  const float* gates = nullptr;
  const void* highway = nullptr;
  void* output = nullptr;
  std::int32_t ring_length = 0;
  std::int32_t token_capacity = 0;
  std::int32_t span_capacity = 0;
  std::int32_t multiprocessor_count = 0;
};

// The last pass: a block for each token and 256 channels, blocks of tokens that share their gates,
// or chains of tokens. Only chains need args.gates.
Status mix_tokens_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream);
Status mix_blocks_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream);
Status mix_chains_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream);

struct RebuildArgs {
  PleShape shape;
  Arithmetic arithmetic = Arithmetic::mixed;
  const PleStepCounts* counts = nullptr;
  TokenSums sums;
  const void* values = nullptr;
  const float* gamma = nullptr;
  std::byte* ring = nullptr;
  std::int32_t ring_length = 0;
  std::int32_t entry_begin = 0;
  std::int32_t token_capacity = 0;
};

Status rebuild_entries_cuda(const RebuildArgs& args, bool is_overlapped, cudaStream_t stream);

}  // namespace ple::kernels
