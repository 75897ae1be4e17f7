#pragma once

#include <cstddef>

#include "kernels/e4m3_codes.cuh"
#include "kernels/project_wgmma.cuh"

// The loop of the product with weights in E4M3: a ring of stages in shared memory, and the
// warpgroups that multiply what stands in it.

namespace ple::kernels {

inline constexpr int kProducerRegisters = 32;
inline constexpr int kWarpgroupSlices = kWarpgroupThreads / kWarpThreads;

// kTokens: of a tile; kConsumers: warpgroups, each with a slice of the tile for each of its warps;
// kStageChunks: 1 or 2; kBlocks: of a cluster, whose blocks have the same tokens, of which each
// reads its share and sends it to all; kRegisters: of a consumer's thread, where the producer's
// warpgroup gives of its own.
template <int kTokens_, int kConsumers_, int kStages_, int kStageChunks_, int kBlocks_,
          int kRegisters_>
struct E4m3Form {
  static constexpr int kTokens = kTokens_;
  static constexpr int kConsumers = kConsumers_;
  static constexpr int kStages = kStages_;
  static constexpr int kStageChunks = kStageChunks_;
  static constexpr int kBlocks = kBlocks_;
  static constexpr int kRegisters = kRegisters_;

  static constexpr int kSlices = kConsumers * kWarpgroupSlices;
  static constexpr int kSums = kTokens / 2;
  static constexpr int kShareRows = kTokens / kBlocks;
  static constexpr int kTokenBytes = kTokens * kTileRowBytes;
  static constexpr int kChunkBytes = kTokenBytes + kSlices * kE4m3SliceBytes;
  static constexpr int kStageBytes = kStageChunks * kChunkBytes;
  static constexpr int kSharedBytes = kTileAlignment + kStages * kStageBytes;
  static constexpr int kThreads =
      kConsumers * kWarpgroupThreads + (kRegisters > 0 ? kWarpgroupThreads : kWarpThreads);
  // Not on the scheduler of the first warps, which may have a slice more than others.
  static constexpr int kProducerWarp = kSlices + (kRegisters > 0 ? 1 : 0);
  static constexpr bool kStartsEarly = kTokens <= kMaxSlicedTokens;
  static_assert(kTokenBytes % kTileAlignment == 0 && kChunkBytes % kTileAlignment == 0);
  static_assert(kShareRows <= kMaxBlockRows);
  // What consumers take is what the producer's warpgroup gives, or they wait for ever.
  static constexpr int kLaunchRegisters = 65536 / kThreads / 8 * 8;
  static_assert(kRegisters == 0 || (kRegisters - kLaunchRegisters) * kConsumers <=
                                       kLaunchRegisters - kProducerRegisters);
};

// weights, tokens: of a stage, they have arrived; empty: its consumers have read it.
template <class F>
struct E4m3Barriers {
  std::uint64_t weights[F::kStages];
  std::uint64_t tokens[F::kStages];
  std::uint64_t empty[F::kStages];
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Multiplies all chunks of a warp's slice. While the product of one runs, the weights of the next
// are made of codes that were loaded before; a stage is given back when the product after its last
// has begun. A warp without a slice takes part with weights of zero.
template <class F>
class E4m3Multiplier {
 public:
  using Weights = std::uint32_t[kStepsPerChunk][4];

  __device__ E4m3Multiplier(const ProjectArgs& args, const PleTiles& tiles,
                            E4m3Barriers<F>& barriers, const std::byte* stages,
                            const std::uint32_t* factor_ring, int slice, bool has_slice,
                            StageCursor<F::kStages>& at)
      : ring_operands_(kept(operand_begin(shared_address(stages)))),
        ring_codes_(kept(shared_address(stages) + F::kTokenBytes +
                         threadIdx.x / kWarpThreads * kE4m3SliceBytes +
                         threadIdx.x % kWarpThreads * kE4m3VectorBytes)),
        ring_barriers_(kept(shared_address(&barriers))),
        factors_(args.factors + std::int64_t{slice} * e4m3_factor_chunks(tiles), tiles.chunk_count,
                 factor_ring),
        chunk_count_(tiles.chunk_count),
        has_slice_(has_slice),
        at_(at),
        ahead_(at) {}

  // Takes in the first weights; no token is read yet.
  __device__ void begin() {
    if (has_slice_) {
      factors_.begin();
      load<0>(0);
      if constexpr (kEnds<0>) ahead_.advance();
      codes_.unpack(factors_of_pair_.x, even_);
      load<1>(1);
    }
    ahead_.advance();
  }
  __device__ void run(float (&sums)[F::kSums]) {
#pragma unroll
    for (float& sum : sums) sum = 0.0F;
#pragma unroll 1
    for (int chunk = 0; chunk < chunk_count_; ++chunk) {
      multiply<0>(sums, chunk, even_, odd_);
      if (++chunk == chunk_count_) break;
      multiply<1>(sums, chunk, odd_, even_);
    }
  }
  // The sums are complete.
  __device__ void end() {
    wgmma_wait<0>();
    give_back();
    if (F::kStageChunks == 2 && chunk_count_ % 2 != 0) at_.advance();
  }

 private:
  static constexpr int kBarrierBytes = sizeof(std::uint64_t);
  // Of the chunks of this parity.
  template <int kParity>
  static constexpr bool kBegins = F::kStageChunks == 1 || kParity == 0;
  template <int kParity>
  static constexpr bool kEnds = F::kStageChunks == 1 || kParity == 1;
  template <int kParity>
  static constexpr int kOffset = F::kStageChunks == 1 ? 0 : kParity* F::kChunkBytes;

  // The codes of a chunk; the factors of an even one, and of the odd one after it.
  template <int kParity>
  __device__ void load(int chunk) {
    if constexpr (kBegins<kParity>) {
      if (chunk < chunk_count_) {
        barrier_wait(
            ring_barriers_ + ahead_.stage * kBarrierBytes + offsetof(E4m3Barriers<F>, weights),
            ahead_.parity);
      }
    }
    codes_.load(ring_codes_ + ahead_.stage * F::kStageBytes + kOffset<kParity>);
    if constexpr (kParity == 0) factors_of_pair_ = factors_.words(chunk);
  }
  __device__ void give_back() const {
    if (threadIdx.x % kWarpThreads == 0) {
      barrier_arrive_all<F::kBlocks>(used_ + offsetof(E4m3Barriers<F>, empty));
    }
  }
  template <int kParity>
  __device__ void multiply(float (&sums)[F::kSums], int chunk, const Weights& weights,
                           Weights& next) {
    const std::uint32_t barrier = ring_barriers_ + at_.stage * kBarrierBytes;
    if constexpr (kBegins<kParity>) {
      // Known to be the same in all lanes, so that uniform registers take it from here on.
      tokens_ = __shfl_sync(0xFFFFFFFF, ring_operands_ + (at_.stage * F::kStageBytes >> 4), 0);
    }
    const std::uint32_t tokens = tokens_ + (kOffset<kParity> >> 4);
    if constexpr (kBegins<kParity>) {
      barrier_wait(barrier + offsetof(E4m3Barriers<F>, tokens), at_.parity);
    }
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kStepsPerChunk; ++step) {
      wgmma_registers<F::kTokens>(sums, weights[step], operand_at(tokens + step * kOperandStep),
                                  false);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if constexpr (kBegins<kParity>) {
      if (kParity == 1 || chunk != 0) give_back();
      used_ = barrier;
    }
    if constexpr (F::kStageChunks == 1) {
      at_.advance();
    } else if constexpr (kParity == 1) {
      at_ = ahead_;  // one stage on
    }
    if (has_slice_) {
      // If there is a next one; else what nobody multiplies.
      codes_.unpack(kParity == 0 ? factors_of_pair_.y : factors_of_pair_.x, next);
      load<kParity>(chunk + 2);
    }
    if constexpr (kEnds<kParity>) ahead_.advance();
  }

  std::uint32_t ring_operands_;
  std::uint32_t ring_codes_;
  std::uint32_t ring_barriers_;
  Factors factors_;
  int chunk_count_;
  bool has_slice_;
  StageCursor<F::kStages>& at_;    // what is multiplied
  StageCursor<F::kStages> ahead_;  // what is loaded
  Fragments codes_;
  Weights even_ = {};
  Weights odd_ = {};
  uint2 factors_of_pair_{};
  std::uint32_t tokens_ = 0;  // the operand of this stage
  std::uint32_t used_ = 0;    // the barriers of the stage to be given back
};

// Of a warpgroup without slices.
template <class F>
__device__ inline void skip_tile(E4m3Barriers<F>& barriers, int chunk_count,
                                 StageCursor<F::kStages>& at) {
#pragma unroll 1
  for (int chunk = 0; chunk < chunk_count; chunk += F::kStageChunks) {
    barrier_wait(&barriers.weights[at.stage], at.parity);
    barrier_wait(&barriers.tokens[at.stage], at.parity);
    if (threadIdx.x % kWarpThreads == 0) {
      barrier_arrive_all<F::kBlocks>(&barriers.empty[at.stage]);
    }
    at.advance();
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

}  // namespace ple::kernels
