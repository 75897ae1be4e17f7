#pragma once

#include "device/cuda_check.hpp"
#include "kernels/block_few_plan.hpp"
#include "kernels/block_product_chains.cuh"

// The product of block_product.cuh for some tokens to some hundred on Hopper: a cluster has some
// slices of columns for a tile of rows, each of its blocks one chain, and each consumer warpgroup
// half of the rows or, of a tile of 64, half of the columns. x and weights pass through the same
// stages; when all blocks of the cluster have read theirs they send each other the sums.

namespace ple::kernels {

namespace {

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Chunks of weights that are asked for before x is there: more, and the rows would wait behind
// them.
template <class F>
constexpr int kEarlyChunks = F::kRows > kWarpgroupRows ? 2 : 5;

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

// A consumer multiplies some rows and slices of the block's chain; rows, columns: where these begin
// in a stage.
template <int kSlices>
__device__ inline void multiply_chain_part(float (&sums)[kSlices * kSliceSums],
                                           const SomePlan& plan, const FewPart& part,
                                           SomeBarriers& barriers, const std::byte* stages,
                                           int rows, int columns) {
  const bool is_leader = threadIdx.x % kWarpgroupThreads == 0;
  const StageAddresses ring(barriers);
  const std::uint32_t begin = kept(operand_begin(shared_address(stages)));
  StageRing at(plan.stage_count);
  int previous_stage = -1;
#pragma unroll 1
  for (int chunk = 0; chunk < part.chunk_count; ++chunk) {
    ring.wait_full(at);
    const std::uint32_t stage = begin + at.stage * (plan.stage_bytes() >> 4);
    start_chunk<kSlices * kSliceColumns>(sums, stage + (rows >> 4), stage + (columns >> 4),
                                         chunk == 0);
    wgmma_wait<1>();  // the chunk before this one has been read
    if (previous_stage >= 0 && is_leader) ring.free(previous_stage);
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

// The sums of a block's chain, [rows, columns], and those that it is sent of its share of the rows,
// [other rank, rows of a share, columns]. They lie where the stages were.
template <class F>
struct SomeSums {
  static constexpr int kShareLength = F::kShareRows * F::kColumns;
  float* own;
  int rows;  // of the tile
  int rank = cluster_rank();

  __device__ SomeSums(std::byte* stages, int rows_)
      : own(reinterpret_cast<float*>(stages)), rows(rows_) {}

  __device__ std::uint32_t share_bytes(int of) const {
    const int share_rows = max(0, min(F::kShareRows, rows - of * F::kShareRows));
    return static_cast<std::uint32_t>(share_rows * F::kColumns * 4);
  }
  __device__ float* sent(int from, int to) const {
    return own + (F::kRanks + from - (from > to ? 1 : 0)) * kShareLength;
  }
  // Of a chain, which is a rank's, this block's share.
  __device__ const float* of_chain(int chain) const {
    return chain == rank ? own + rank * kShareLength : sent(chain, rank);
  }
  template <int kSlices>
  __device__ void store(const float (&sums)[kSlices * kSliceSums], int first_row,
                        int first_slice) const {
    const int row = first_row + accumulator_row();
    float* to = own + row * F::kColumns + first_slice * kSliceColumns +
                static_cast<int>(threadIdx.x) % kQuadThreads * 4;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if (row + 8 * half >= rows) continue;
#pragma unroll
      for (int i = 0; i < kSlices; ++i) {
        store4(to + 8 * half * F::kColumns + i * kSliceColumns,
               accumulated(sums + i * kSliceSums, half));
      }
    }
  }
  __device__ void send(std::uint64_t* barrier) const {
    for (int to = 0; to < F::kRanks; ++to) {
      if (to == rank || share_bytes(to) == 0) continue;
      bulk_send(sent(rank, to), to, own + to * kShareLength, share_bytes(to), barrier);
    }
  }
};

// A thread's vectors of four columns in the share of its block. What a batch of them begins with is
// read at once, the first while the sums are sent.
template <class F, class Family>
class SomeShare {
 public:
  // The tokens of the tile from first_token on.
  __device__ SomeShare(const Family& family, int first_slice, int first_token, int token_count)
      : family_(family),
        first_column_(first_slice * kSliceColumns),
        first_token_(first_token + cluster_rank() * F::kShareRows),
        count_(min(F::kShareRows, token_count - first_token_) * kVectors) {
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
          sums[chain] = load4(all_sums.of_chain(chain) + at.row * F::kColumns + at.column);
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
        family_.finish(tokens_[i], first_token_ + at.row, first_column_ + at.column, total);
      }
    }
  }

 private:
  struct Place {
    int row;  // of the share
    int column;
    bool is_inside;
  };
  static constexpr int kVectors = F::kColumns / 4;
  static constexpr int kItems = (F::kShareRows * kVectors + kFewThreads - 1) / kFewThreads;
  static constexpr int kBatch = kItems < 6 ? kItems : 6;

  __device__ Place place(int i) const {
    const int index = first_item_ + i * kFewThreads;
    const int column = index % kVectors * 4;
    return {.row = index / kVectors,
            .column = column,
            .is_inside = index < count_ && first_column_ + column < family_.tiles.column_count};
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
      if (at.is_inside) firsts_[i] = family_.first(tokens_[i], first_column_ + at.column);
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
  const int first_token = static_cast<int>(blockIdx.y) * F::kRows;
  const int rows = min(F::kRows, (family.token_capacity - first_token + 7) / 8 * 8);
  const SomeSums<F> all_sums(stages, rows);
  if (threadIdx.x == kWeightsThread) {
#pragma unroll 1
    for (int stage = 0; stage < plan.stage_count; ++stage) {
      barrier_init(&barriers.full[stage], 2);
      barrier_init(&barriers.empty[stage], kFewConsumers);
    }
    barrier_init(&barriers.sums, 2);
    barrier_init_fence();
    const std::uint32_t sent_chains = family.tiles.chain_count() - part.chain_count;
    barrier_expect(&barriers.sums, sent_chains * all_sums.share_bytes(all_sums.rank));
    barrier_arrive(&barriers.sums);
  }
  __syncthreads();
  start_next_kernel();
  if (threadIdx.x == kWeightsThread) {
    const int copy_bytes =
        min(F::kSlices, family.tiles.slice_count() - part.first_slice) * kSliceTileBytes;
    bring_chunks(
        plan, part, barriers, stages + F::kRows * kTileRowBytes, copy_bytes,
        [&](int chunk) {
          return weight_tile(family, 0, part.first_chunk + chunk) +
                 part.first_slice * kSliceTileBytes;
        },
        [&](int chunk) {
          if (chunk == kEarlyChunks<F>) wait_previous_kernel();
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
  if (threadIdx.x < kWeightsThread) {
    const auto multiply = [&]<int kSlices>(int first_row, int first_slice) {
      float sums[kSlices * kSliceSums];
      multiply_chain_part<kSlices>(sums, plan, part, barriers, stages, first_row * kTileRowBytes,
                                   F::kRows * kTileRowBytes + first_slice * kSliceTileBytes);
      meet<kWeightsThread>(1);  // now all stages have been read
      cluster_arrive();
      if (part.chain_count > 0) {
        all_sums.template store<kSlices>(sums, first_row, first_slice);
      }
      publish_to_async();
    };
    constexpr int kHalf = (F::kSlices + 1) / 2;
    const bool is_first = threadIdx.x < kWarpgroupThreads;
    if constexpr (F::kRows > kWarpgroupRows) {
      multiply.template operator()<F::kSlices>(is_first ? 0 : kWarpgroupRows, 0);
    } else if (is_first) {
      multiply.template operator()<kHalf>(0, 0);
    } else {
      multiply.template operator()<F::kSlices - kHalf>(0, kHalf);
    }
  } else {
    cluster_arrive();
  }
  SomeShare<F, Family> share(family, part.first_slice, first_token, token_count);
  __syncthreads();  // the own sums are there
  cluster_wait();   // in all blocks
  if (threadIdx.x == 0) {
    if (part.chain_count > 0) all_sums.send(&barriers.sums);
    barrier_arrive(&barriers.sums);
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
