#include <algorithm>

#include "device/cuda_check.hpp"
#include "kernels/ple_stages_cuda.hpp"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

// What a token's pieces are spread over.
constexpr int kMinGatherThreads = 320;
constexpr int kMaxGatherThreads = 768;
// A block has one token in steps up to the first size, or up to the second where the rows of two
// are not asked for at once; then two; above the second four.
constexpr int kMaxSingleTokens = 512;
constexpr int kMaxPairTokens = 2048;
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

// Piece of a token's embedding, of which slots are [column_count]; slot: of its first row.
__device__ uint4 read_piece(const GatherEmbeddingsArgs& args, const SlotId* slots, SlotId slot,
                            int piece) {
  const int dim = args.rows.encoding.dim;
  const int k = piece * kPiece;
  uint4 elements{};
  if (dim % kPiece != 0) {
    elements = straddling_piece(args.rows, slots, k, args.embed_dim);
  } else if (k < args.embed_dim) {
    const std::byte* row = slot_row(args.rows, slot);
    if (row != nullptr) elements = row_elements8(args.rows.encoding, row, k % dim);
  }
  return args.quantizes ? quantized_piece(elements) : elements;
}

__device__ void store_piece(const GatherEmbeddingsArgs& args, int chunk_count, int token, int piece,
                            uint4 elements) {
  const TokenRows rows =
      args.is_packed ? TokenRows::of_one() : TokenRows(args.token_capacity, chunk_count, token);
  const std::int64_t at = rows.at(piece / kPiecesPerChunk);
  const int place = (piece % kPiecesPerChunk) ^ static_cast<int>(at / kTileRowBytes % 8);
  reinterpret_cast<uint4*>(reinterpret_cast<std::byte*>(args.embeddings) + at)[place] = elements;
}

__device__ int column_of(const GatherEmbeddingsArgs& args, int piece) {
  const int k = piece * kPiece;
  return k < args.embed_dim ? k / args.rows.encoding.dim : 0;
}

// Whether a piece is in one row and is stored as it stands there.
__host__ __device__ bool is_copied(const GatherEmbeddingsArgs& args) {
  return args.rows.encoding.format == RowFormat::bf16 && args.rows.encoding.dim % kPiece == 0 &&
         !args.quantizes;
}

// The same piece of count tokens. What is only copied is asked for all at once, so that its latency
// is paid once.
template <int kTokens>
__device__ void gather_pieces(const GatherEmbeddingsArgs& args, int chunk_count, int first,
                              int count, const SlotId* slots, int piece) {
  const int column = column_of(args, piece);
  const int k = piece * kPiece;
  if (kTokens > 1 && is_copied(args) && k < args.embed_dim) {
    uint4 elements[kTokens] = {};
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= count || slots[t * args.column_count] == kNoTokenSlot) continue;
      const std::byte* row = slot_row(args.rows, slots[t * args.column_count + column]);
      if (row != nullptr) {
        elements[t] = *reinterpret_cast<const uint4*>(row + 2 * (k % args.rows.encoding.dim));
      }
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
      if (t >= count || slots[t * args.column_count] == kNoTokenSlot) continue;
      store_piece(args, chunk_count, first + t, piece, elements[t]);
    }
    return;
  }
#pragma unroll 1
  for (int t = 0; t < count; ++t) {
    const SlotId* token_slots = slots + t * args.column_count;
    if (token_slots[0] == kNoTokenSlot) continue;
    store_piece(args, chunk_count, first + t, piece,
                read_piece(args, token_slots, token_slots[column], piece));
  }
}

// The step may lie in pinned memory; the kernel copies it meanwhile, all but the slots. A block
// has kTokens tokens, and reads their slots once: behind the bus, one address that all blocks ask
// for is a queue, so that kNoTokenSlot says which tokens there are, not a count.
template <int kTokens>
__global__ __launch_bounds__(kMaxGatherThreads) void gather_embeddings_kernel(
    const __grid_constant__ GatherEmbeddingsArgs args, int chunk_count) {
  extern __shared__ SlotId slots[];  // [kTokens, column_count]
  start_next_kernel();
  const auto thread = static_cast<int>(threadIdx.x);
  const auto threads = static_cast<int>(blockDim.x);
  const int first = static_cast<int>(blockIdx.x) * kTokens;
  const int count = min(kTokens, args.token_capacity - first);
  const SlotId* from = args.slots + std::int64_t{first} * args.column_count;
  for (int i = thread; i < count * args.column_count; i += threads) slots[i] = from[i];
  // By other threads, which do not wait for the slots first.
  for (int i = (static_cast<int>(blockIdx.x) + 1) * threads - 1 - thread; i < args.copy.count;
       i += static_cast<int>(gridDim.x) * threads) {
    args.copy.to[i] = args.copy.from[i];
  }
  __syncthreads();
  const int token_pieces = chunk_count * kPiecesPerChunk;
  for (int piece = thread; piece < token_pieces; piece += threads) {
    gather_pieces<kTokens>(args, chunk_count, first, count, slots, piece);
  }
}

template <int kTokens>
Status gather_by(const GatherEmbeddingsArgs& args, cudaStream_t stream) {
  const int chunk_count = (args.embed_dim + kChunk - 1) / kChunk;
  const int token_pieces = chunk_count * kPiecesPerChunk;
  const int block_threads =
      std::clamp((token_pieces + kWarpThreads - 1) / kWarpThreads * kWarpThreads, kMinGatherThreads,
                 kMaxGatherThreads);
  const Launch shape{
      .grid = dim3(static_cast<unsigned>((args.token_capacity + kTokens - 1) / kTokens)),
      .block_threads = block_threads,
      .shared_bytes = kTokens * static_cast<int>(sizeof(SlotId)) * args.column_count,
      .is_beside_product = true};
  PLE_CUDA_TRY(launch(gather_embeddings_kernel<kTokens>, shape, stream, args, chunk_count));
  return {};
}

}  // namespace

Status gather_embeddings_cuda(const GatherEmbeddingsArgs& args, cudaStream_t stream) {
  const int most = is_copied(args) ? kMaxSingleTokens : kMaxPairTokens;
  if (args.token_capacity <= most) return gather_by<1>(args, stream);
  if (args.token_capacity <= kMaxPairTokens) return gather_by<2>(args, stream);
  return gather_by<4>(args, stream);
}

}  // namespace ple::kernels
