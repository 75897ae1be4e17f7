#pragma once

#include "kernels/embedding_pieces.cuh"
#include "kernels/ple_stages_cuda.hpp"

// What a step of few tokens in one launch reads first: its block, and the rows of all its tokens.

namespace ple::kernels {

inline constexpr int kGatherThreads = 256;
inline constexpr int kMaxFusedColumns = 32;

// The step's block, read once.
struct StepCopy {
  PleStepCounts counts;
  PleSpan spans[kMaxFusedTokens];
  std::int32_t token_span[kMaxFusedTokens];
  SlotId slots[kMaxFusedTokens * kMaxFusedColumns];
};

__device__ inline void sync_gather() {
  asm volatile("bar.sync 1, %0;" ::"n"(kGatherThreads) : "memory");
}

// count elements, in words, by all threads that gather.
template <class T>
__device__ inline void copy_words(T* to, const T* from, int count) {
  const int words = count * static_cast<int>(sizeof(T) / sizeof(std::uint32_t));
  for (int i = static_cast<int>(threadIdx.x); i < words; i += kGatherThreads) {
    reinterpret_cast<std::uint32_t*>(to)[i] = reinterpret_cast<const std::uint32_t*>(from)[i];
  }
}

// Brings the step's block out of pinned memory: one block does, because many small reads over the
// bus would take longer than the step.
__device__ inline void copy_block(const FewTokensArgs& args) {
  if (blockIdx.x != 0) return;
  for (int i = static_cast<int>(threadIdx.x); i < args.step_vectors; i += kGatherThreads) {
    args.step[i] = args.pinned_step[i];
  }
}

__device__ inline void read_step(const FewTokensArgs& args, StepCopy& step) {
  const int capacity = args.mix.token_capacity;
  const PleStepView& from = args.mix.step;
  copy_words(&step.counts, from.counts, 1);
  copy_words(step.spans, from.spans, min(args.mix.span_capacity, kMaxFusedTokens));
  copy_words(step.token_span, from.token_span, capacity);
  copy_words(step.slots, from.slots, capacity * args.mix.shape.column_count);
  sync_gather();
}

// Brings the embeddings into shared memory: tiles of kMaxFusedTokens rows, as in ple_tiles.hpp.
class Gather {
 public:
  __device__ Gather(const FewTokensArgs& args, const PleTiles& tiles, const StepCopy& step)
      : rows_(args.rows),
        slots_(step.slots),
        embed_dim_(args.mix.shape.embed_dim),
        column_count_(args.mix.shape.column_count),
        token_pieces_(tiles.chunk_count * kPiecesPerChunk),
        piece_count_(step.counts.token_count * token_pieces_),
        first_piece_(static_cast<int>(blockIdx.x) * piece_count_ / static_cast<int>(gridDim.x)) {}

  __device__ void run(std::byte* tiles) const {
    if (rows_.encoding.format == RowFormat::bf16 && rows_.encoding.dim % kPiece == 0) {
      copy(tiles);
    } else {
      decode(tiles);
    }
  }

 private:
  static constexpr int kBatch = 10;  // pieces of a thread that are on their way at once

  __device__ void copy(std::byte* tiles) const {
    for (int first = static_cast<int>(threadIdx.x); first < piece_count_;
         first += kBatch * kGatherThreads) {
      uint4 elements[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        elements[i] = {};
        const int piece = first + i * kGatherThreads;
        const Place place(*this, piece);
        if (piece >= piece_count_ || place.k >= embed_dim_) continue;
        const int column = place.k / rows_.encoding.dim;
        const std::byte* row = slot_row(rows_, slots_[place.token * column_count_ + column]);
        if (row == nullptr) continue;
        elements[i] =
            reinterpret_cast<const uint4*>(row)[(place.k - column * rows_.encoding.dim) / kPiece];
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int piece = first + i * kGatherThreads;
        if (piece < piece_count_) store(tiles, Place(*this, piece), elements[i]);
      }
    }
  }
  // One after the other: the code for all formats shall stand here only once.
  __device__ void decode(std::byte* tiles) const {
#pragma unroll 1
    for (int piece = static_cast<int>(threadIdx.x); piece < piece_count_; piece += kGatherThreads) {
      const Place place(*this, piece);
      store(tiles, place,
            embedding_piece(rows_, slots_ + place.token * column_count_, place.k, embed_dim_));
    }
  }
  // The pieces begin elsewhere in every block, so that these do not ask for the same at once.
  struct Place {
    int token;
    int k;
    __device__ Place(const Gather& gather, int piece) {
      piece += gather.first_piece_;
      if (piece >= gather.piece_count_) piece -= gather.piece_count_;
      token = piece / gather.token_pieces_;
      k = (piece - token * gather.token_pieces_) * kPiece;
    }
  };
  __device__ static void store(std::byte* tiles, const Place& place, uint4 elements) {
    const int tile_row = place.k / kChunk * kMaxFusedTokens + place.token;
    const int in_row = place.k % kChunk / kPiece ^ place.token;
    reinterpret_cast<uint4*>(tiles)[tile_row * kPiecesPerChunk + in_row] = elements;
  }
  const RowView& rows_;
  const SlotId* slots_;
  int embed_dim_;
  int column_count_;
  int token_pieces_;
  int piece_count_;
  int first_piece_;
};

}  // namespace ple::kernels
