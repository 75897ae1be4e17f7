#include "device/cuda_check.hpp"
#include "kernels/ple_stages_cuda.hpp"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 320;  // the pieces of a token of the released model
constexpr int kPiece = 8;           // elements a thread decodes: 16 bytes of the tile
constexpr int kPiecesPerChunk = kChunk / kPiece;
constexpr int kMaxSharedSlots = 256;
static_assert(sizeof(PleSpan) % sizeof(uint4) == 0);

// Elements k .. k + 7 of a token's embedding, which may cross rows or lie behind the last one.
__device__ uint4 straddling_piece(const RowView& rows, const SlotId* slots, int k, int embed_dim) {
  std::uint16_t out[kPiece] = {};
  for (int j = 0; j < kPiece && k + j < embed_dim; ++j) {
    const int column = (k + j) / rows.encoding.dim;
    const std::byte* row = slot_row(rows, slots[column]);
    if (row == nullptr) continue;
    const float value = row_element(rows.encoding, row, k + j - column * rows.encoding.dim);
    out[j] = bf16_bits(value);
  }
  return {out[0] | std::uint32_t{out[1]} << 16, out[2] | std::uint32_t{out[3]} << 16,
          out[4] | std::uint32_t{out[5]} << 16, out[6] | std::uint32_t{out[7]} << 16};
}

// The later kernels read counts and spans many times: they get them in device memory.
__device__ void copy_step(const GatherEmbeddingsArgs& args, std::int64_t index) {
  constexpr int kSpanVectors = sizeof(PleSpan) / sizeof(uint4);
  if (index == 0) *args.step_copy.counts = *args.step.counts;
  if (index < std::int64_t{args.span_capacity} * kSpanVectors) {
    reinterpret_cast<uint4*>(args.step_copy.spans)[index] =
        reinterpret_cast<const uint4*>(args.step.spans)[index];
  }
  if (index < args.token_capacity) args.step_copy.token_span[index] = args.step.token_span[index];
}

// A block has one token. Its slots come into shared memory first, in few reads: the step may lie
// behind the bus.
__global__ __launch_bounds__(kBlockThreads) void gather_embeddings_kernel(
    const __grid_constant__ GatherEmbeddingsArgs args, int chunk_count, int block_rows) {
  __shared__ SlotId shared_slots[kMaxSharedSlots];
  start_next_kernel();
  const std::int64_t token = blockIdx.x;
  const SlotId* slots = args.step.slots + token * args.column_count;
  if (args.column_count <= kMaxSharedSlots) {
    if (static_cast<int>(threadIdx.x) < args.column_count) {
      shared_slots[threadIdx.x] = slots[threadIdx.x];
    }
    slots = shared_slots;
  }
  const int token_count = args.step.counts->token_count;
  if (args.step_copy.counts != nullptr) copy_step(args, token * kBlockThreads + threadIdx.x);
  __syncthreads();
  if (token >= token_count) return;

  const int dim = args.rows.encoding.dim;
  const std::int64_t block = token / block_rows;
  const int row = static_cast<int>(token - block * block_rows);
  for (int piece = static_cast<int>(threadIdx.x); piece < chunk_count * kPiecesPerChunk;
       piece += kBlockThreads) {
    const int k = piece * kPiece;
    uint4 elements{};
    if (dim % kPiece != 0) {
      elements = straddling_piece(args.rows, slots, k, args.embed_dim);
    } else if (k < args.embed_dim) {
      const int column = k / dim;
      const std::byte* from = slot_row(args.rows, slots[column]);
      if (from != nullptr) elements = row_elements8(args.rows.encoding, from, k - column * dim);
    }
    const int chunk = piece / kPiecesPerChunk;
    const std::int64_t tile_row = (block * chunk_count + chunk) * block_rows + row;
    const int place = (piece % kPiecesPerChunk) ^ (row % 8);
    reinterpret_cast<uint4*>(args.embeddings)[tile_row * kPiecesPerChunk + place] = elements;
  }
}

}  // namespace

Status gather_embeddings_cuda(const GatherEmbeddingsArgs& args, cudaStream_t stream) {
  const int chunk_count = (args.embed_dim + kChunk - 1) / kChunk;
  const Launch shape{.grid = dim3(static_cast<unsigned>(args.token_capacity)),
                     .block_threads = kBlockThreads};
  PLE_CUDA_TRY(launch(gather_embeddings_kernel, shape, stream, args, chunk_count,
                      PleTiles::block_rows(args.token_capacity)));
  return {};
}

}  // namespace ple::kernels
