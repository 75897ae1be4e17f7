#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_few_plan.hpp"
#include "kernels/block_product_chains.cuh"

// The product of block_product.cuh for few tokens on Hopper, bound by the weights: a cluster has
// some slices of columns and each of its blocks some chains, so that no multiprocessor reads more
// of x than it must. The weights' copies start at once, while x is still gathered. Each block of
// the cluster adds up a share of the columns; the others send it the sums of their chains.

namespace ple::kernels {

static_assert(kMaxFewTokens == kWarpgroupRows && FewPlan::kAlignment == kTileAlignment);

namespace {

// Bytes of weights under way: fewer do not use the memory fully, and what else is read waits behind
// them.
constexpr int kFlightBytes = 96 << 10;

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct FewBarriers : StageBarriers<FewPlan::kMaxStages> {
  std::uint64_t pieces[FewPlan::kMaxPieces];
  std::uint64_t sums;  // of all chains in the block's share
};

// Brings the weights of a block's chunks into the stages. They never change, so they are read
// before the step is known.
class FewWeights {
 public:
  __device__ FewWeights(const BlockProduct& product, const FewPlan& plan, const FewPart& part,
                        FewBarriers& barriers, std::byte* stages)
      : product_(product),
        part_(part),
        barriers_(barriers),
        stages_(stages),
        stage_bytes_(plan.stage_bytes()),
        copy_bytes_(min(plan.form.slices, product.tiles.slice_count() - part.first_slice) *
                    kSliceTileBytes),
        flight_(min(kFlightBytes / stage_bytes_, plan.stage_count)),
        at_(plan.stage_count),
        arriving_(plan.stage_count) {}

  // What may be under way at once; waits for nothing.
  __device__ void start() { bring_until(min(flight_, part_.chunk_count)); }
  __device__ void bring_rest() { bring_until(part_.chunk_count); }

 private:
  __device__ void bring_until(int end) {
#pragma unroll 1
    for (; chunk_ < end; ++chunk_, at_.advance()) {
      if (chunk_ >= at_.stage_count) barrier_wait(&barriers_.empty[at_.stage], at_.parity ^ 1);
      if (chunk_ >= flight_) {
        barrier_wait(&barriers_.full[arriving_.stage], arriving_.parity);
        arriving_.advance();
      }
      std::uint64_t* full = &barriers_.full[at_.stage];
      const std::byte* from = weight_tile(product_, 0, part_.first_chunk + chunk_) +
                              part_.first_slice * kSliceTileBytes;
      barrier_expect(full, static_cast<std::uint32_t>(copy_bytes_));
      bulk_copy(stages_ + at_.stage * stage_bytes_, from, static_cast<std::uint32_t>(copy_bytes_),
                full);
      barrier_arrive(full);
    }
  }

  const BlockProduct& product_;
  const FewPart& part_;
  FewBarriers& barriers_;
  std::byte* stages_;
  int stage_bytes_;
  int copy_bytes_;
  int flight_;
  int chunk_ = 0;
  StageRing at_;
  StageRing arriving_;
};

__device__ inline void bring_x(const BlockProduct& product, const FewPlan& plan,
                               const FewPart& part, FewBarriers& barriers, std::byte* x) {
  std::uint64_t* arrived = barriers.pieces;
#pragma unroll 1
  for (int chunk = 0; chunk < part.chunk_count; chunk += plan.piece_chunks, ++arrived) {
    const int chunks = min(plan.piece_chunks, part.chunk_count - chunk);
    const auto bytes = static_cast<std::uint32_t>(chunks * plan.row_bytes());
    barrier_expect(arrived, bytes);
    bulk_copy(x + chunk * plan.row_bytes(), x_tile(product, 0, part.first_chunk + chunk), bytes,
              arrived);
    barrier_arrive(arrived);
  }
}

// Sends the sums of a chain to the blocks that add them up: [chain, rows, columns of the share].
template <class F>
__device__ inline void send_sums(const FewPlan& plan, const float (&sums)[F::kSums], int chain,
                                 float* to, std::uint64_t* barrier) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = accumulator_row() + 8 * half;
    if (row >= plan.rows) continue;
    float* share = to + (chain * plan.rows + row) * F::kShareColumns;
#pragma unroll
    for (int i = 0; i < F::kSlices; ++i) {
      const int column = i * kSliceColumns + static_cast<int>(threadIdx.x) % kQuadThreads * 4;
      const int rank = column / F::kShareColumns;
      send4(share + column - rank * F::kShareColumns, rank,
            accumulated(sums + i * kSliceSums, half), barrier);
    }
  }
}

// A consumer multiplies every other chain of the block. Where stages are used again a consumer
// frees those of the other chains too, so that it never is a whole ring behind or ahead.
template <class F>
__device__ inline void multiply_part(const BlockProduct& product, const FewPlan& plan,
                                     const FewPart& part, FewBarriers& barriers, const std::byte* x,
                                     const std::byte* stages, float* all_sums) {
  float sums[F::kSums];
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  const int consumer = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  StageRing at(plan.stage_count);
  int first = 0;  // chunk of the chain
  const StageAddresses ring(barriers);
  const std::uint32_t rows = kept(operand_begin(shared_address(x)));
  const std::uint32_t columns = kept(operand_begin(shared_address(stages)));
  std::uint32_t piece = kept(shared_address(barriers.pieces));
  int arrived = 0;  // chunks whose x is known to be there
#pragma unroll 1
  for (int chain = 0; chain < part.chain_count; ++chain) {
    const int end = first + chunks_of_chain(product.tiles, part.first_chain + chain);
    if (chain % kFewConsumers != consumer) {
#pragma unroll 1
      for (; first < end; ++first, at.advance()) {
        if (!plan.is_ring()) continue;
        ring.wait_full(at);
        meet<kWarpgroupThreads>(1 + consumer);
        if (is_leader) ring.free(at.stage);
      }
      continue;
    }
    int previous_stage = -1;
#pragma unroll 1
    for (int chunk = first; chunk < end; ++chunk) {
      for (; arrived <= chunk; arrived += plan.piece_chunks, piece += 8) barrier_wait(piece, 0);
      ring.wait_full(at);
      start_chunk<F::kColumns>(sums, rows + chunk * (plan.row_bytes() >> 4),
                               columns + at.stage * (F::kStageBytes >> 4), chunk == first);
      wgmma_wait<1>();  // the chunk before this one has been read
      if (previous_stage >= 0 && is_leader) ring.free(previous_stage);
      previous_stage = at.stage;
      at.advance();
    }
    wgmma_wait<0>();
    if (is_leader) ring.free(previous_stage);
    send_sums<F>(plan, sums, part.first_chain + chain, all_sums, &barriers.sums);
    first = end;
  }
}

// A thread's vectors of four columns in the share of its block, one after the other: what the next
// one begins with is on its way meanwhile. The last warp comes first, which does not multiply.
template <class F, class Family>
class FewShare {
 public:
  __device__ FewShare(const Family& family, int first_slice, int token_count)
      : family_(family),
        first_column_(first_slice * kSliceColumns + cluster_rank() * F::kShareColumns),
        count_(token_count * kVectors),
        item_((static_cast<int>(threadIdx.x) + kWarpThreads) % kFewThreads) {
    load();
  }

  // sums: [chain, rows, columns of the share]
  __device__ void finish(const FewPlan& plan, const float* sums) {
#pragma unroll 1
    while (item_ < count_) {
      const Place at = place_;
      const typename Family::Token token = token_;
      float4 total[1] = {Family::first_value(first_)};
      item_ += kFewThreads;
      load();
      const float* from = sums + at.index * F::kShareColumns + at.in_share;
#pragma unroll 2
      for (int left = family_.tiles.chain_count(); left > 0; --left) {
        const float4 sum = load4(from);
        total[0].x = add_chain(total[0].x, sum.x, family_.rounds_each);
        total[0].y = add_chain(total[0].y, sum.y, family_.rounds_each);
        total[0].z = add_chain(total[0].z, sum.z, family_.rounds_each);
        total[0].w = add_chain(total[0].w, sum.w, family_.rounds_each);
        from += plan.rows * F::kShareColumns;
      }
      const int column = first_column_ + at.in_share;
      if (column < family_.tiles.column_count) family_.finish(token, at.index, column, total);
    }
  }

 private:
  struct Place {
    int index;     // of the token
    int in_share;  // the first column
  };
  static constexpr int kVectors = F::kShareColumns / 4;

  __device__ void load() {
    if (item_ >= count_) return;
    place_ = {item_ / kVectors, item_ % kVectors * 4};
    const int column = first_column_ + place_.in_share;
    token_ = family_.token(place_.index);
    first_ = family_.first(token_, column < family_.tiles.column_count ? column : 0);
  }

  const Family& family_;
  int first_column_;
  int count_;
  int item_;
  Place place_{};
  typename Family::Token token_{};
  typename Family::First first_{};
};

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F, class Family>
__global__ __launch_bounds__(kFewThreads) void block_product_few_kernel(
    const __grid_constant__ Family family, const __grid_constant__ FewPlan plan) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ FewBarriers barriers;
  std::byte* x = aligned_stages(shared);
  std::byte* stages = x + plan.x_bytes();
  auto* sums = reinterpret_cast<float*>(stages + plan.stage_count * F::kStageBytes);
  const FewPart part(family.tiles, plan.form, plan.rank_chains);
  FewWeights weights(family, plan, part, barriers, stages);
  if (threadIdx.x == kWeightsThread) {
#pragma unroll 1
    for (int stage = 0; stage < plan.stage_count; ++stage) {
      barrier_init(&barriers.full[stage], 1);
      barrier_init(&barriers.empty[stage], kFewConsumers);
    }
    for (std::uint64_t& piece : barriers.pieces) barrier_init(&piece, 1);
    barrier_init(&barriers.sums, 1);
    barrier_init_fence();
    weights.start();
    barrier_expect(&barriers.sums, static_cast<std::uint32_t>(plan.sums_bytes));
    barrier_arrive(&barriers.sums);
  }
  __syncthreads();
  cluster_meet();  // now the blocks may send to each other
  start_next_kernel();
  if (threadIdx.x == kWeightsThread) weights.bring_rest();
  wait_previous_kernel();
  if (threadIdx.x == kXThread) bring_x(family, plan, part, barriers, x);
  FewShare<F, Family> share(family, part.first_slice, family.step.counts->token_count);
  if (threadIdx.x < kWeightsThread) {
    multiply_part<F>(family, plan, part, barriers, x, stages, sums);
  }
  barrier_wait(&barriers.sums, 0);
  share.finish(plan, sums);
#endif
}

}  // namespace

// plan: one that fits.
template <class Family>
Status block_product_few_cuda(const Family& family, const FewPlan& plan, bool is_overlapped,
                              cudaStream_t stream) {
  return with_form<kFewForms>(plan.form, [&]<class F>() {
    return launch_chains<F>(block_product_few_kernel<F, Family>, family, plan, 1, is_overlapped,
                            stream);
  });
}

}  // namespace ple::kernels
