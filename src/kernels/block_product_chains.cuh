#pragma once

#include <iterator>

#include "kernels/block_few_plan.hpp"
#include "kernels/block_product.cuh"
#include "kernels/project_wgmma.cuh"

// What the products share in which the blocks of a cluster have some slices of columns and each of
// them some chains: each block adds up a share of the columns, and the others send it their sums.

namespace ple::kernels {

namespace {

constexpr int kFewConsumers = 2;  // warpgroups
constexpr int kWeightsThread = kFewConsumers * kWarpgroupThreads;
constexpr int kXThread = kWeightsThread + kWarpThreads;
constexpr int kFewThreads = kXThread + kWarpThreads;

template <int kRanks_, int kSlices_, int kRows_>
struct ChainShape {
  static constexpr int kRanks = kRanks_;
  static constexpr int kSlices = kSlices_;
  static constexpr int kRows = kRows_;
  static constexpr int kColumns = kSlices * kSliceColumns;
  static constexpr int kShareColumns = kColumns / kRanks;
  static constexpr int kShareRows = kRows / kRanks;
  static constexpr int kSums = kSlices * kSliceSums;
  static constexpr int kStageBytes = kSlices * kSliceTileBytes;
  static_assert(kShareColumns % 4 == 0);
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A block's part of the product.
struct FewPart {
  int first_slice;
  int first_chain;
  int chain_count;
  int first_chunk;
  int chunk_count;
  __device__ FewPart(const BlockTiles& tiles, const FewForm& form, int rank_chains)
      : first_slice(static_cast<int>(blockIdx.x) / form.ranks * form.slices),
        first_chain(cluster_rank() * rank_chains),
        chain_count(max(0, min(rank_chains, tiles.chain_count() - first_chain))),
        first_chunk(first_chain * tiles.chain_chunks),
        chunk_count(
            max(0, min(rank_chains * tiles.chain_chunks, tiles.chunk_count() - first_chunk))) {}
};

// A place in the ring of stages and the parity of its barriers' phase.
struct StageRing {
  int stage_count;
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ explicit StageRing(int count) : stage_count(count) {}
  __device__ void advance() {
    if (++stage < stage_count) return;
    stage = 0;
    parity ^= 1;
  }
};

// The barriers of a ring's stages by their shared addresses, which a loop does not derive anew.
struct StageAddresses {
  std::uint32_t full;
  std::uint32_t empty;
  template <int kStages>
  __device__ explicit StageAddresses(StageBarriers<kStages>& barriers)
      : full(kept(shared_address(barriers.full))), empty(kept(shared_address(barriers.empty))) {}
  __device__ void wait_full(const StageRing& at) const {
    barrier_wait(full + at.stage * 8, at.parity);
  }
  __device__ void free(int stage) const { barrier_arrive(empty + stage * 8); }
};

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

// Launches clusters of blocks for all columns, each row_tiles times.
template <class F, class Family, class Plan>
Status launch_chains(void (*kernel)(Family, Plan), const Family& family, const Plan& plan,
                     std::int32_t row_tiles, bool is_overlapped, cudaStream_t stream) {
  const int clusters = (family.tiles.slice_count() + F::kSlices - 1) / F::kSlices;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(clusters * F::kRanks), static_cast<unsigned>(row_tiles)),
      .block_threads = kFewThreads,
      .shared_bytes = plan.shared_bytes(),
      .is_overlapped = is_overlapped,
      .cluster_blocks = F::kRanks};
  PLE_CUDA_TRY(launch(kernel, shape, stream, family, plan));
  return {};
}

// Calls run.template operator()<F>() with the shape of one of kForms.
template <const auto& kForms, std::size_t kIndex = 0, class Run>
Status with_form(const FewForm& form, Run&& run) {
  constexpr FewForm kForm = kForms[kIndex];
  if constexpr (kIndex + 1 < std::size(kForms)) {
    if (form != kForm) return with_form<kForms, kIndex + 1>(form, run);
  }
  return run.template operator()<ChainShape<kForm.ranks, kForm.slices, kForm.rows>>();
}

}  // namespace

}  // namespace ple::kernels
