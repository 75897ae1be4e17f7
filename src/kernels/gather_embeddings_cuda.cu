#include "device/cuda_check.hpp"
#include "kernels/ple_stages_cuda.hpp"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

constexpr int kCopyThreads = 320;
// Small, so that few tokens are spread evenly and leave room for the product's blocks.
constexpr int kGatherThreads = 128;
constexpr int kPiece = 8;  // elements a thread decodes: 16 bytes of the tile
constexpr int kPiecesPerChunk = kChunk / kPiece;

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

// Of 32 elements that four lanes hold; the CPU's quantize_e4m3_blocks does the same.
__device__ uint4 quantized_piece(uint4 elements) {
  constexpr int kLanes = 4;
  constexpr float kLeast = 1e-4F;
  const std::uint32_t words[kLanes] = {elements.x, elements.y, elements.z, elements.w};
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const unsigned block_lanes = 0xFU << (lane / kLanes * kLanes);
  float most = kLeast;
#pragma unroll
  for (const std::uint32_t word : words) {
    most = fmaxf(most, fmaxf(fabsf(low_bf16(word)), fabsf(high_bf16(word))));
  }
  most = fmaxf(most, __shfl_xor_sync(block_lanes, most, 1));
  most = fmaxf(most, __shfl_xor_sync(block_lanes, most, 2));
  // The power of two at or above the ratio.
  const std::uint32_t power =
      (__float_as_uint(__fmul_rn(most, 1.0F / 448.0F)) + 0x7FFFFF) & 0x7F800000;
  const float scale = __uint_as_float(power);
  const float inverse = __uint_as_float((254U << 23) - power);  // exact, as is the product with it
  std::uint32_t out[kLanes];
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    const float2 pair = {low_bf16(words[i]) * inverse, high_bf16(words[i]) * inverse};
    const __nv_fp8x2_storage_t codes = __nv_cvt_float2_to_fp8x2(pair, __NV_SATFINITE, __NV_E4M3);
    const float2 kept = e4m3_values(codes);
    out[i] = pack_bf16(kept.x * scale, kept.y * scale);
  }
  return {out[0], out[1], out[2], out[3]};
}

__global__ __launch_bounds__(kCopyThreads) void copy_step_kernel(const uint4* from, uint4* to,
                                                                 std::int64_t count) {
  start_next_kernel();
  const std::int64_t index = std::int64_t{blockIdx.x} * kCopyThreads + threadIdx.x;
  if (index < count) to[index] = from[index];
}

// A thread has one piece of a token.
__global__ __launch_bounds__(kGatherThreads) void gather_embeddings_kernel(
    const __grid_constant__ GatherEmbeddingsArgs args, int chunk_count, int block_rows) {
  wait_previous_kernel();
  const int piece = static_cast<int>(blockIdx.y * kGatherThreads + threadIdx.x);
  if (piece >= chunk_count * kPiecesPerChunk) return;
  const std::int64_t token = blockIdx.x;
  const SlotId* slots = args.slots + token * args.column_count;
  const int dim = args.rows.encoding.dim;
  const int k = piece * kPiece;
  // Read before the count is known, so that the two reads overlap.
  const int column = k < args.embed_dim ? k / dim : 0;
  const SlotId slot = slots[column];
  if (token >= args.counts->token_count) return;
  // Not before: what the next kernel asks for at once would stand before the rows in every queue.
  start_next_kernel();
  uint4 elements{};
  if (dim % kPiece != 0) {
    elements = straddling_piece(args.rows, slots, k, args.embed_dim);
  } else if (k < args.embed_dim) {
    const std::byte* from = slot_row(args.rows, slot);
    if (from != nullptr) elements = row_elements8(args.rows.encoding, from, k - column * dim);
  }
  if (args.quantizes) elements = quantized_piece(elements);
  const std::int64_t block = token / block_rows;
  const int row = static_cast<int>(token - block * block_rows);
  const int chunk = piece / kPiecesPerChunk;
  const std::int64_t tile_row = (block * chunk_count + chunk) * block_rows + row;
  const int place = (piece % kPiecesPerChunk) ^ (row % 8);
  reinterpret_cast<uint4*>(args.embeddings)[tile_row * kPiecesPerChunk + place] = elements;
}

}  // namespace

Status copy_step_cuda(const std::byte* from, std::byte* to, std::size_t bytes,
                      cudaStream_t stream) {
  const auto count = static_cast<std::int64_t>(bytes / sizeof(uint4));
  const Launch shape{.grid = dim3(static_cast<unsigned>((count + kCopyThreads - 1) / kCopyThreads)),
                     .block_threads = kCopyThreads,
                     .is_beside_product = true};
  PLE_CUDA_TRY(launch(copy_step_kernel, shape, stream, reinterpret_cast<const uint4*>(from),
                      reinterpret_cast<uint4*>(to), count));
  return {};
}

Status gather_embeddings_cuda(const GatherEmbeddingsArgs& args, bool is_overlapped,
                              cudaStream_t stream) {
  const int chunk_count = (args.embed_dim + kChunk - 1) / kChunk;
  const int piece_blocks = (chunk_count * kPiecesPerChunk + kGatherThreads - 1) / kGatherThreads;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(args.token_capacity), static_cast<unsigned>(piece_blocks)),
      .block_threads = kGatherThreads,
      .is_overlapped = is_overlapped,
      .is_beside_product = true};
  PLE_CUDA_TRY(launch(gather_embeddings_kernel, shape, stream, args, chunk_count,
                      PleTiles::block_rows(args.token_capacity)));
  return {};
}

}  // namespace ple::kernels
