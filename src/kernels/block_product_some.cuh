#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_few_plan.hpp"
#include "kernels/block_product_chains.cuh"

// The product of block_product.cuh for some hundred tokens on Hopper: a cluster has some slices of
// columns for a tile of rows, each of its blocks one chain, and each consumer warpgroup half of the
// rows. x and weights pass through the same stages; when all blocks of the cluster have read theirs
// they send each other the sums.

namespace ple::kernels {

namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Chunks of weights that are asked for before x is there: more, and the rows would wait behind
// them.
constexpr int kEarlyChunks = 2;

// full: of the weights and of x.
struct SomeBarriers : StageBarriers<SomePlan::kMaxStages> {
  std::uint64_t sums;
};

// One thread brings bytes of every chunk to the same place in the stages; from(chunk).
template <class From, class Before>
__device__ inline void bring_chunks(const SomePlan& plan, const FewPart& part,
                                    SomeBarriers& barriers, std::byte* to, int bytes,
                                    const From& from, const Before& before) {
  StageRing at(plan.stage_count);
#pragma unroll 1
  for (int chunk = 0; chunk < part.chunk_count; ++chunk, at.advance()) {
    before(chunk);
    barrier_wait(&barriers.empty[at.stage], at.parity ^ 1);
    std::uint64_t* full = &barriers.full[at.stage];
    if (bytes != 0) {
      barrier_expect(full, static_cast<std::uint32_t>(bytes));
      bulk_copy(to + at.stage * plan.stage_bytes(), from(chunk), static_cast<std::uint32_t>(bytes),
                full);
    }
    barrier_arrive(full);
  }
}

// A consumer multiplies its rows of the block's chain.
template <class F>
__device__ inline void multiply_chain_part(float (&sums)[F::kSums], const SomePlan& plan,
                                           const FewPart& part, SomeBarriers& barriers,
                                           const std::byte* stages) {
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  const int consumer = static_cast<int>(threadIdx.x) / kWarpgroupThreads;
  StageRing at(plan.stage_count);
  int previous_stage = -1;
  for (int chunk = 0; chunk < part.chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    const std::byte* stage = stages + at.stage * plan.stage_bytes();
    start_chunk<F::kColumns>(sums, stage + consumer * kWarpgroupRows * kTileRowBytes,
                             stage + SomePlan::kRowsBytes, chunk == 0);
    wgmma_wait<1>();  // the chunk before this one has been read
    if (previous_stage >= 0 && is_leader) barrier_arrive(&barriers.empty[previous_stage]);
    previous_stage = at.stage;
    at.advance();
  }
  wgmma_wait<0>();
}

// Copies bytes (a multiple of 16) of this block's shared memory to a place in another block of the
// cluster and counts them on its barrier.
__device__ inline void bulk_send(void* to, int rank, const void* from, std::uint32_t bytes,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, "
      "[%3];" ::"r"(address_in(rank, to)),
      "r"(shared_address(from)), "r"(bytes), "r"(address_in(rank, barrier))
      : "memory");
}

// The sums of a block's chain, [rank, rows, columns of the share], and those that it is sent of its
// share, [other rank, rows, columns of the share]. They lie where the stages were.
template <class F>
struct SomeSums {
  float* own;
  int share_length;
  int rank = cluster_rank();

  __device__ SomeSums(std::byte* stages, int rows)
      : own(reinterpret_cast<float*>(stages)), share_length(rows * F::kShareColumns) {}

  __device__ float* sent(int from, int to) const {
    return own + (F::kRanks + from - (from > to ? 1 : 0)) * share_length;
  }
  // Of a chain, which is a rank's, this block's share.
  __device__ const float* of_chain(int chain) const {
    return chain == rank ? own + rank * share_length : sent(chain, rank);
  }
  __device__ void store(const float (&sums)[F::kSums], int first_row, int rows) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + accumulator_row() + 8 * half;
      if (row >= rows) continue;
#pragma unroll
      for (int i = 0; i < F::kSlices; ++i) {
        const int column = i * kSliceColumns + static_cast<int>(threadIdx.x) % kQuadThreads * 4;
        const int to = column / F::kShareColumns;
        store4(own + to * share_length + row * F::kShareColumns + column - to * F::kShareColumns,
               accumulated(sums + i * kSliceSums, half));
      }
    }
  }
  __device__ void send(std::uint64_t* barrier) const {
    for (int to = 0; to < F::kRanks; ++to) {
      if (to == rank) continue;
      bulk_send(sent(rank, to), to, own + to * share_length,
                static_cast<std::uint32_t>(share_length * 4), barrier);
    }
  }
};

// A thread's vectors of four columns in the share of its block. What a batch of them begins with is
// read at once, the first while the sums are sent.
template <class F, class Family>
class SomeShare {
 public:
  // The tokens from first_token to token_count.
  __device__ SomeShare(const Family& family, int first_slice, int first_token, int token_count)
      : family_(family),
        first_column_(first_slice * kSliceColumns + cluster_rank() * F::kShareColumns),
        first_token_(first_token),
        count_((token_count - first_token) * kVectors) {
    load();
  }

  __device__ void finish(const SomeSums<F>& all_sums) {
#pragma unroll 1
    for (; first_item_ < count_; first_item_ += kBatch * kFewThreads, load()) {
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const Place at = place(i);
        if (!at.is_inside) continue;
        float4 sums[F::kRanks];
#pragma unroll
        for (int chain = 0; chain < F::kRanks; ++chain) {
          if (chain >= family_.tiles.chain_count()) continue;
          sums[chain] = load4(all_sums.of_chain(chain) + at.row * F::kShareColumns + at.in_share);
        }
        float4 total[1] = {Family::first_value(firsts_[i])};
#pragma unroll
        for (int chain = 0; chain < F::kRanks; ++chain) {
          if (chain >= family_.tiles.chain_count()) continue;
          total[0].x = add_chain(total[0].x, sums[chain].x, family_.rounds_each);
          total[0].y = add_chain(total[0].y, sums[chain].y, family_.rounds_each);
          total[0].z = add_chain(total[0].z, sums[chain].z, family_.rounds_each);
          total[0].w = add_chain(total[0].w, sums[chain].w, family_.rounds_each);
        }
        family_.finish(tokens_[i], first_token_ + at.row, first_column_ + at.in_share, total);
      }
    }
  }

 private:
  struct Place {
    int row;       // of the tile
    int in_share;  // the first column
    bool is_inside;
  };
  static constexpr int kVectors = F::kShareColumns / 4;
  static constexpr int kItems = (SomePlan::kRows * kVectors + kFewThreads - 1) / kFewThreads;
  static constexpr int kBatch = kItems < 6 ? kItems : 6;

  __device__ Place place(int i) const {
    const int index = first_item_ + i * kFewThreads;
    const int in_share = index % kVectors * 4;
    return {.row = index / kVectors,
            .in_share = in_share,
            .is_inside = index < count_ && first_column_ + in_share < family_.tiles.column_count};
  }
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Place at = place(i);
      if (at.is_inside) tokens_[i] = family_.token(first_token_ + at.row);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Place at = place(i);
      if (at.is_inside) firsts_[i] = family_.first(tokens_[i], first_column_ + at.in_share);
    }
  }

  const Family& family_;
  int first_column_;
  int first_token_;
  int count_;
  int first_item_ = static_cast<int>(threadIdx.x);
  typename Family::Token tokens_[kBatch];
  typename Family::First firsts_[kBatch];
};

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class F, class Family>
__global__ __launch_bounds__(kFewThreads) void block_product_some_kernel(
    const __grid_constant__ Family family, const __grid_constant__ SomePlan plan) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte shared[];
  __shared__ SomeBarriers barriers;
  std::byte* stages = aligned_stages(shared);
  const FewPart part(family.tiles, plan.form, 1);
  const int first_token = static_cast<int>(blockIdx.y) * SomePlan::kRows;
  const int rows = min(SomePlan::kRows, (family.token_capacity - first_token + 7) / 8 * 8);
  if (threadIdx.x == kWeightsThread) {
#pragma unroll 1
    for (int stage = 0; stage < plan.stage_count; ++stage) {
      barrier_init(&barriers.full[stage], 2);
      barrier_init(&barriers.empty[stage], kFewConsumers);
    }
    barrier_init(&barriers.sums, 2);
    barrier_init_fence();
    const int sent_chains = family.tiles.chain_count() - part.chain_count;
    barrier_expect(&barriers.sums,
                   static_cast<std::uint32_t>(sent_chains * rows * F::kShareColumns * 4));
    barrier_arrive(&barriers.sums);
  }
  __syncthreads();
  start_next_kernel();
  if (threadIdx.x == kWeightsThread) {
    const int copy_bytes =
        min(F::kSlices, family.tiles.slice_count() - part.first_slice) * kSliceTileBytes;
    bring_chunks(
        plan, part, barriers, stages + SomePlan::kRowsBytes, copy_bytes,
        [&](int chunk) {
          return weight_tile(family, 0, part.first_chunk + chunk) +
                 part.first_slice * kSliceTileBytes;
        },
        [&](int chunk) {
          if (chunk == kEarlyChunks) wait_previous_kernel();
        });
  }
  wait_previous_kernel();
  const int token_count = family.step.counts->token_count;
  if (threadIdx.x == kXThread) {
    const int copied = max(0, min(rows, (token_count - first_token + 7) / 8 * 8));
    bring_chunks(
        plan, part, barriers, stages, copied * kTileRowBytes,
        [&](int chunk) { return x_tile(family, first_token, part.first_chunk + chunk); },
        [](int) {});
  }
  const SomeSums<F> all_sums(stages, rows);
  if (threadIdx.x < kWeightsThread) {
    float sums[F::kSums];
    multiply_chain_part<F>(sums, plan, part, barriers, stages);
    meet<kWeightsThread>(1);  // now all stages have been read
    cluster_arrive();
    const int first_row = static_cast<int>(threadIdx.x) / kWarpgroupThreads * kWarpgroupRows;
    if (part.chain_count > 0) all_sums.store(sums, first_row, rows);
    publish_to_async();
  } else {
    cluster_arrive();
  }
  SomeShare<F, Family> share(family, part.first_slice, first_token,
                             min(token_count, first_token + rows));
  cluster_wait();  // in all blocks
  if (threadIdx.x < kWeightsThread) {
    meet<kWeightsThread>(1);
    if (threadIdx.x == 0) {
      if (part.chain_count > 0) all_sums.send(&barriers.sums);
      barrier_arrive(&barriers.sums);
    }
  }
  barrier_wait(&barriers.sums, 0);
  cluster_arrive();
  share.finish(all_sums);
  cluster_wait();  // all that was sent has been read
#endif
}

}  // namespace

// plan: one that fits.
template <class Family>
Status block_product_some_cuda(const Family& family, const SomePlan& plan, bool is_overlapped,
                               cudaStream_t stream) {
  return with_form<kSomeForms>(plan.form, [&]<class F>() {
    return launch_chains<F>(block_product_some_kernel<F, Family>, family, plan, plan.row_tiles,
                            is_overlapped, stream);
  });
}

}  // namespace ple::kernels
