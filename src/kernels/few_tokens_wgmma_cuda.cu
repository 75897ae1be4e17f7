#include <cooperative_groups.h>

#include <algorithm>

#include "device/cuda_check.hpp"
#include "kernels/few_tokens_gather.cuh"
#include "kernels/mix_token.cuh"
#include "kernels/project_slices.cuh"

// A whole step of few tokens in one launch on Hopper. Every block streams its share of the weights
// from its first moment on; meanwhile it reads the step's block and gathers the rows, all of them,
// into shared memory. A barrier of the grid stands between the product and the last pass, so that
// the blocks must run at the same time: the launch is cooperative.

namespace ple::kernels {

namespace {

constexpr int kStages = 12;
constexpr int kStagesInFlight = 4;  // as many as keep the memory busy: the rows wait behind them
constexpr int kEarlyStages = 8;     // on their way while the step's block is
constexpr int kChunkRowBytes = kMaxFusedTokens * kTileRowBytes;
constexpr int kMaxSharedBytes = 219 * 1024;  // dynamic, of the 227 KB of a block
// Both warpgroups gather; then the first multiplies and the second prepares the last pass. One more
// warp streams the weights.
constexpr int kThreads = kGatherThreads + kWarpThreads;
constexpr int kMixWarps = kWarpgroupThreads / kWarpThreads;
// A row group of the operand; those behind it are no tokens, whatever they hold.
static_assert(kChunkRowBytes == 1024 && kGatherThreads == 2 * kWarpgroupThreads);

int shared_bytes_of(const PleTiles& tiles) {
  return kTileAlignment + tiles.chunk_count * kChunkRowBytes + kStages * kSlicedTileBytes;
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ void sync_product() {
  asm volatile("bar.sync 2, %0;" ::"n"(kWarpgroupThreads) : "memory");
}

// The weights of all of the block's tiles, chunk by chunk, brought by one thread.
class WeightStream {
 public:
  __device__ WeightStream(const ProjectArgs& args, const PleTiles& tiles,
                          StageBarriers<kStages>& barriers, std::byte* stages, int tile_count)
      : args_(args),
        tiles_(tiles),
        barriers_(barriers),
        stages_(stages),
        tile_count_(tile_count),
        tile_(static_cast<int>(blockIdx.x)) {
    arrived_.advance(kEarlyStages - kStagesInFlight);
  }

  static constexpr int kAll = -1;

  // Starts the next stages, up to that many since the beginning.
  __device__ void start(int stage_count) {
    for (; tile_ < tile_count_; tile_ += static_cast<int>(gridDim.x), chunk_ = 0) {
      const SliceCopies copies(args_, tiles_, slices_of(args_, tile_, tile_count_));
      for (; chunk_ < tiles_.chunk_count; ++chunk_) {
        if (started_ == stage_count) return;
        if (started_++ >= kEarlyStages) {
          barrier_wait(&barriers_.full[arrived_.stage], arrived_.parity);
          arrived_.advance(1);
        }
        barrier_wait(&barriers_.empty[at_.stage], at_.parity ^ 1);
        copies.start(stages_ + at_.stage * kSlicedTileBytes, chunk_, &barriers_.full[at_.stage]);
        barrier_arrive(&barriers_.full[at_.stage]);
        at_.advance(1);
      }
    }
  }

 private:
  const ProjectArgs& args_;
  const PleTiles& tiles_;
  StageBarriers<kStages>& barriers_;
  std::byte* stages_;
  int tile_count_;
  int tile_;
  int chunk_ = 0;
  int started_ = 0;
  StageCursor<kStages> at_;
  StageCursor<kStages> arrived_;
};

// Multiplies all chunks of one tile.
__device__ void multiply(float (&sums)[kMaxSlices * kSliceSums], const std::byte* embeddings,
                         StageBarriers<kStages>& barriers, const std::byte* stages, int chunk_count,
                         StageCursor<kStages>& at) {
  const bool is_leader = threadIdx.x == 0;
  int previous_stage = 0;
  for (int chunk = 0; chunk < chunk_count; ++chunk) {
    barrier_wait(&barriers.full[at.stage], at.parity);
    const std::uint64_t rows = operand(embeddings + chunk * kChunkRowBytes);
    const std::uint64_t columns = operand(stages + at.stage * kSlicedTileBytes);
    wgmma_begin();
#pragma unroll
    for (int step = 0; step < kStepsPerChunk; ++step) {
      wgmma<kSlicedColumns>(sums, rows + step * kOperandStep, columns + step * kOperandStep,
                            chunk == 0 && step == 0);
    }
    wgmma_commit();
    wgmma_wait<1>();  // the chunk before this one has been read
    if (chunk > 0 && is_leader) barrier_arrive(&barriers.empty[previous_stage]);
    previous_stage = at.stage;
    at.advance(1);
  }
  wgmma_wait<0>();
  if (is_leader) barrier_arrive(&barriers.empty[previous_stage]);
}

// The slices of a block, token by token: what a quad of lanes takes in at once. The accumulators
// come through shared memory, so that all warps share the work, in code that stands here once.
template <class T>
class Items {
 public:
  static constexpr int kQuads = kWarpgroupThreads / kQuadThreads;
  static constexpr int kCount = (kMaxFusedTokens * kMaxSlices + kQuads - 1) / kQuads;

  // Reads what the sums are taken with, before it is needed.
  __device__ Items(const ProjectArgs& args, const PleTiles& tiles, Slices slices)
      : args_(args), tiles_(tiles), slices_(slices) {
    const std::int64_t width = std::int64_t{args.shape.stream_count} * args.shape.hidden;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const std::int64_t channel = place(i).channel();
      const int token = min(token_of(i), args.token_capacity - 1);
      scale_[i] = load4(args.gate_scale + channel);
      highway_[i].load(static_cast<const T*>(args.highway) + token * width + channel);
    }
  }

  __device__ void finish(const float (&sums)[kMaxSlices * kSliceSums], float4* shared,
                         int token_count) const {
    const auto thread = static_cast<int>(threadIdx.x);
    if (thread < kWarpThreads) {  // the other warps' rows are no tokens
#pragma unroll
      for (int i = 0; i < kMaxSlices; ++i) {
        shared[i * kWarpThreads + thread] = accumulated(sums + i * kSliceSums, 0);
      }
    }
    sync_product();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int token = token_of(i);
      const bool is_token = slice_of(i) < slices_.count && token < token_count;
      ColumnSums slice_sums;
      if (is_token) {
        slice_sums = finish_slice(args_, place(i), shared[i * kWarpgroupThreads + thread],
                                  highway_[i].value(), scale_[i], token, true);
      }
      slice_sums = quad_sums(slice_sums);
      if (is_token && thread % kQuadThreads == 0) {
        store_sums(
            args_.sums,
            std::int64_t{token} * tiles_.group_count * kGroupSlices + slices_.begin + slice_of(i),
            slice_sums);
      }
    }
  }

 private:
  __device__ static int quad(int i) {
    return i * kQuads + static_cast<int>(threadIdx.x) / kQuadThreads;
  }
  __device__ static int token_of(int i) { return quad(i) % kMaxFusedTokens; }
  __device__ static int slice_of(int i) { return quad(i) / kMaxFusedTokens; }
  __device__ SlicePlace place(int i) const {
    return SlicePlace(args_.shape, tiles_, slices_.begin + min(slice_of(i), slices_.count - 1));
  }

  const ProjectArgs& args_;
  const PleTiles& tiles_;
  const Slices slices_;
  Vector4<T> highway_[kCount];
  float4 scale_[kCount];
};

struct Shared {
  StageBarriers<kStages> barriers;
  float4 sums[kMaxSlices * kWarpThreads];
  std::byte step[sizeof(StepCopy)];
};

// From the embeddings to the sums and values of all of the block's tiles.
template <class T>
__device__ void project(const FewTokensArgs& args, const PleTiles& tiles, const StepCopy& step,
                        Shared& shared, std::byte* embeddings, const std::byte* stages,
                        int tile_count) {
  const ProjectArgs& product = args.project;
  StageCursor<kStages> at;
  for (int tile = static_cast<int>(blockIdx.x); tile < tile_count;
       tile += static_cast<int>(gridDim.x)) {
    const Items<T> items(product, tiles, slices_of(product, tile, tile_count));
    float sums[kMaxSlices * kSliceSums];
    multiply(sums, embeddings, shared.barriers, stages, tiles.chunk_count, at);
    items.finish(sums, shared.sums, step.counts.token_count);
    sync_product();
  }
}

// The last pass over this warp's share of tokens, streams and channels. wait: see mix_token.
template <class M, class Wait>
__device__ void mix(const MixArgs& args, StepCopy& step, Gate (&gates)[M::kTaps],
                    const Wait& wait) {
  const int warp = (static_cast<int>(threadIdx.x) - kWarpgroupThreads) / kWarpThreads;
  const int streams = args.shape.stream_count;
  const int channel_blocks = (args.shape.hidden + kWarpChannels - 1) / kWarpChannels;
  const PleStepView view{&step.counts, step.spans, step.token_span, step.slots};
  const int count = step.counts.token_count * streams * channel_blocks;
  for (int i = warp * static_cast<int>(gridDim.x) + static_cast<int>(blockIdx.x); i < count;
       i += kMixWarps * static_cast<int>(gridDim.x)) {
    const int token = i / (streams * channel_blocks);
    const int in_token = i - token * streams * channel_blocks;
    const TokenPlace place(view, kMaxFusedTokens, token);
    if (place.span_index < 0) continue;
    const MixLane<M> lane(args, in_token % streams, in_token / streams);
    const auto conv = load_conv<M::kTaps>(args.vectors.conv + lane.weights_at() * M::kTaps);
    const auto norm = *reinterpret_cast<const Vector8<std::uint16_t>*>(args.vectors.norm_conv +
                                                                       lane.weights_at());
    mix_token(args, lane, conv, norm, place, token, gates, wait);
  }
}

#endif  // __CUDA_ARCH_FEAT_SM90_ALL

template <class M>
__global__ __launch_bounds__(kThreads,
                             1) void few_tokens_kernel(const __grid_constant__ FewTokensArgs args,
                                                       int tile_count) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ std::byte memory[];
  __shared__ __align__(16) std::byte shared_bytes[sizeof(Shared)];
  __shared__ Gate gates[kMixWarps][M::kTaps];
  Shared& shared = *reinterpret_cast<Shared*>(shared_bytes);
  StepCopy& step = *reinterpret_cast<StepCopy*>(shared.step);
  const PleTiles tiles(args.mix.shape);
  std::byte* embeddings = aligned_stages(memory);
  std::byte* stages = embeddings + tiles.chunk_count * kChunkRowBytes;
  const auto thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      barrier_init(&shared.barriers.full[stage], 1);
      barrier_init(&shared.barriers.empty[stage], 1);
    }
    barrier_init_fence();
  }
  __syncthreads();
  const cooperative_groups::grid_group grid = cooperative_groups::this_grid();
  bool is_projected = false;
  const auto wait = [&] {
    if (!is_projected) grid.sync();
    is_projected = true;
  };
  if (thread >= kGatherThreads) {
    WeightStream weights(args.project, tiles, shared.barriers, stages, tile_count);
    if (thread == kGatherThreads) weights.start(kEarlyStages);
    __syncwarp();
    if (args.pinned_step != nullptr) grid.sync();
    if (thread == kGatherThreads) weights.start(WeightStream::kAll);
    __syncwarp();
  } else {
    if (args.pinned_step != nullptr) {
      copy_block(args);
      grid.sync();
    }
    read_step(args, step);
    Gather(args, tiles, step).run(embeddings);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // before wgmma reads them
    sync_gather();
    if (thread < kWarpgroupThreads) {
      project<typename M::Highway>(args, tiles, step, shared, embeddings, stages, tile_count);
    } else {
      mix<M>(args.mix, step, gates[(thread - kWarpgroupThreads) / kWarpThreads], wait);
    }
  }
  wait();
#endif
}

}  // namespace

bool can_run_few_tokens(const PleShape& shape, Arithmetic arithmetic, std::int32_t token_capacity) {
  return token_capacity <= kMaxFusedTokens && arithmetic != Arithmetic::reference &&
         shape.column_count <= kMaxFusedColumns &&
         shared_bytes_of(PleTiles(shape)) <= kMaxSharedBytes;
}

Status few_tokens_wgmma_cuda(const FewTokensArgs& args, cudaStream_t stream) {
  const int tile_count = slice_tile_count(args.project);
  return with_mode(args.mix, [&]<class M>() -> Status {
    if constexpr (M::kReference) {
      return Status(StatusCode::internal, "a step in reference arithmetic is no single launch");
    } else {
      const int shared_bytes = shared_bytes_of(PleTiles(args.mix.shape));
      PLE_CUDA_TRY(cudaFuncSetAttribute(few_tokens_kernel<M>,
                                        cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
      const Launch shape{
          .grid =
              dim3(static_cast<unsigned>(std::min(tile_count, args.project.multiprocessor_count))),
          .block_threads = kThreads,
          .shared_bytes = shared_bytes,
          .is_cooperative = true};
      PLE_CUDA_TRY(launch(few_tokens_kernel<M>, shape, stream, args, tile_count));
      return {};
    }
  });
}

}  // namespace ple::kernels
