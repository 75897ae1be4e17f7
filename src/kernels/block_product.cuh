#pragma once

#include "kernels/block_product.hpp"
#include "kernels/ple_epilogue.cuh"
#include "kernels/token_step_cuda.hpp"

// What the kernels of block_product.hpp share. They are templates over a Family, the product of one
// model family, which is also their argument: a BlockProduct with
//   row(token, block)               a block of x of a token, as 64 bits
//   read(rows, k, pieces)           elements k .. k + 7 of several rows, so that their latency is
//                                   paid once
//   Token, token(index)             what it knows of a token
//   First, first(Token, column)     what the sum of columns column .. column + 3 begins with,
//   first_value(First)              as it lies in memory, and its value
//   finish(Token, index, column, totals)  takes several slices of a token from column on

namespace ple::kernels {

struct BlockProduct {
  BlockTiles tiles;
  TokenStepView step;
  const std::uint16_t* weights = nullptr;
  std::uint16_t* x = nullptr;  // tiles of scratch; not used for few tokens
  std::int32_t token_capacity = 0;
  bool rounds_each = false;  // the sum of each block, and the total
};

inline constexpr int kPiece = 8;  // elements: 16 bytes of a tile
inline constexpr int kChunkPieces = kChunk / kPiece;
inline constexpr int kPanelSlices = kPanelColumns / kSliceColumns;

// Where a piece of a chunk stands in a row of its tile.
__device__ inline int piece_place(int piece, int row) { return piece % kChunkPieces ^ row % 8; }

__device__ inline const std::byte* weight_tile(const BlockProduct& product, int panel, int chunk) {
  const int weight_chunks = product.tiles.weight_block_count * product.tiles.block_chunks();
  const std::int64_t tile =
      std::int64_t{chunk % weight_chunks} * product.tiles.panel_count() + panel;
  return reinterpret_cast<const std::byte*>(product.weights) + tile * kPanelTileBytes;
}

// The rows of the tile of x from a token on; they lie in one token block.
__device__ inline std::byte* x_tile(const BlockProduct& product, int token, int chunk) {
  const TokenRows rows(product.token_capacity, product.tiles.chunk_count(), token);
  return reinterpret_cast<std::byte*>(product.x) + rows.at(chunk);
}

// The rows first, first + stride .. of count.
struct RowRange {
  int first;
  int stride;
  int count;
};

// A warp reads blocks of x: row_of(i) is that of row i of the range, store(i, piece, elements)
// takes its pieces, of kBatch rows at a time.
template <int kBatch, class Family, class RowOf, class Store>
__device__ inline void gather_rows(const Family& family, RowRange range, const RowOf& row_of,
                                   const Store& store) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int pieces = family.tiles.block_chunks() * kChunkPieces;
  for (int first = range.first; first < range.count; first += range.stride * kWarpThreads) {
    const int own = first + lane * range.stride;
    const std::uint64_t own_row = own < range.count ? row_of(own) : 0;
    for (int begin = 0; begin < kWarpThreads; begin += kBatch) {
      if (first + begin * range.stride >= range.count) break;
      std::uint64_t rows[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) rows[i] = __shfl_sync(kWholeWarp, own_row, begin + i);
      for (int piece = lane; piece < pieces; piece += kWarpThreads) {
        uint4 elements[kBatch];
        family.read(rows, piece * kPiece, elements);
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          const int index = first + (begin + i) * range.stride;
          if (index < range.count) store(index, piece, elements[i]);
        }
      }
    }
  }
}

// How many chunks a chain has.
__device__ inline int chunks_of_chain(const BlockTiles& tiles, int chain) {
  return min(tiles.chain_chunks, tiles.chunk_count() - chain * tiles.chain_chunks);
}

__device__ inline float add_chain(float total, float sum, bool rounds_each) {
  return rounds_each ? round_bf16(total + round_bf16(sum)) : total + sum;
}

// What the totals of two rows of a lane begin with, token first and eight on, of kSlices slices
// from column on; read at once.
template <class Family, int kSlices>
struct Firsts {
  typename Family::Token tokens[2];
  typename Family::First values[2][kSlices];

  __device__ Firsts(const Family& family, int first, int column, int token_count) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      tokens[half] = family.token(min(first + 8 * half, token_count - 1));
#pragma unroll
      for (int i = 0; i < kSlices; ++i) {
        const int at = column + i * kSliceColumns;
        values[half][i] = family.first(tokens[half], at < family.tiles.column_count ? at : 0);
      }
    }
  }

  // The totals in the order of accumulators.
  __device__ void expand(float (&totals)[kSlices * kSliceSums]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < kSlices; ++i) {
        const float4 value = Family::first_value(values[half][i]);
        float* to = totals + i * kSliceSums + half * 2;
        to[0] = value.x, to[1] = value.y, to[4] = value.z, to[5] = value.w;
      }
    }
  }
};

template <int kCount>
__device__ inline void add_chains(float (&totals)[kCount], const float (&sums)[kCount],
                                  bool rounds_each) {
  if (rounds_each) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) totals[i] = add_chain(totals[i], sums[i], true);
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) totals[i] = add_chain(totals[i], sums[i], false);
  }
}

template <class Family, int kCount>
__device__ inline void finish_rows(const Family& family, const float (&totals)[kCount],
                                   const typename Family::Token (&tokens)[2], int first, int column,
                                   int token_count) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    if (first + 8 * half >= token_count) continue;
    float4 slices[kCount / kSliceSums];
#pragma unroll
    for (int i = 0; i < kCount / kSliceSums; ++i) {
      slices[i] = accumulated(totals + i * kSliceSums, half);
    }
    family.finish(tokens[half], first + 8 * half, column, slices);
  }
}

namespace {

constexpr int kGatherThreads = 128;
constexpr int kGatherBatch = 4;
// Tokens of one slot stand in lines of 32 slots: where there are many, a thread block has several.
constexpr int kSharingTokens = 4;
constexpr int kMinSharingTokens = 65;

// Where a step is first, and its copy.
struct PinnedStep {
  const SlotId* slots = nullptr;  // [token_capacity, column_count]; kNoTokenSlot: no token
  std::int32_t column_count = 0;
  StepCopy copy;
};

// A thread block brings kTokens tokens into their tiles and copies a part of the step. A read of
// pinned memory takes a microsecond, and one line that many blocks ask for is a queue: a block
// reads its own slots, once, and kNoTokenSlot says that there is no token.
template <int kTokens, class Family>
__global__ __launch_bounds__(kGatherThreads) void gather_blocks_kernel(
    const __grid_constant__ Family family, const __grid_constant__ PinnedStep step) {
  extern __shared__ SlotId slots[];  // [kTokens, column_count]
  start_next_kernel();
  const int first = static_cast<int>(blockIdx.x) * kTokens;
  const int thread = static_cast<int>(threadIdx.x);
  int count = min(kTokens, family.token_capacity - first);
  const std::int64_t first_slot = std::int64_t{first} * step.column_count;
  for (int i = thread; i < count * step.column_count; i += kGatherThreads) {
    slots[i] = step.slots[first_slot + i];
  }
  // By other threads, which do not wait for the slots first.
  for (int i = (static_cast<int>(blockIdx.x) + 1) * kGatherThreads - 1 - thread;
       i < step.copy.count; i += static_cast<int>(gridDim.x) * kGatherThreads) {
    step.copy.to[i] = step.copy.from[i];
  }
  __syncthreads();
  while (count > 0 && slots[(count - 1) * step.column_count] == kNoTokenSlot) --count;
  if (count == 0) return;
  Family own = family;
  own.step.slots = slots - first_slot;
  const int block_count = family.tiles.block_count;
  const auto token_of = [&](int row) { return first + (kTokens == 1 ? 0 : row / block_count); };
  const auto block_of = [&](int row) { return kTokens == 1 ? row : row % block_count; };
  gather_rows<kGatherBatch>(
      own,
      {.first = thread / kWarpThreads,
       .stride = kGatherThreads / kWarpThreads,
       .count = count * block_count},
      [&](int row) { return own.row(token_of(row), block_of(row)); },
      [&](int row, int piece, uint4 elements) {
        const int chunk = block_of(row) * family.tiles.block_chunks() + piece / kChunkPieces;
        std::byte* to = x_tile(family, token_of(row), chunk);
        reinterpret_cast<uint4*>(to)[piece_place(piece, token_of(row))] = elements;
      });
}

}  // namespace

// Brings x into its tiles and the step to its copy. The next kernel's thread blocks, whatever their
// shared memory, find room beside its own.
template <class Family>
Status gather_blocks_cuda(const Family& family, const PinnedStep& step, cudaStream_t stream) {
  const auto gather = [&]<int kTokens>() {
    const int blocks = (family.token_capacity + kTokens - 1) / kTokens;
    const Launch shape{
        .grid = dim3(static_cast<unsigned>(blocks)),
        .block_threads = kGatherThreads,
        .shared_bytes = kTokens * step.column_count * static_cast<int>(sizeof(SlotId)),
        .is_beside_product = true};
    PLE_CUDA_TRY(launch(gather_blocks_kernel<kTokens, Family>, shape, stream, family, step));
    return Status();
  };
  const bool shares_lines = step.column_count == 1 && family.token_capacity >= kMinSharingTokens;
  return shares_lines ? gather.template operator()<kSharingTokens>()
                      : gather.template operator()<1>();
}

}  // namespace ple::kernels
