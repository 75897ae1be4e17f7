#include <algorithm>

#include "device/cuda_check.hpp"
#include "kernels/mix.cuh"

// The last pass for some tokens. A block has a few of them and as many channels as it has warps
// for: it takes the gates of its tokens from the product's sums once, and shares them. All that the
// product does not write is on its way into shared memory while the product still runs.

namespace ple::kernels {

namespace {

constexpr int kMaxBlockThreads = 640;
constexpr int kMaxSharedBytes = 96 * 1024;

// Where a tap of a token is read.
template <class M>
struct Tap {
  const typename M::Value* values = nullptr;  // [hidden]; null: zeros
  const float* gates = nullptr;               // [2, stream_count], of a ring or of the step
  int token = -1;                             // of this step, of which only sums may be there
};

// Where a token's values and gates are kept for the next step; null: nowhere.
template <class M>
struct Keep {
  typename M::Value* values = nullptr;
  float* gates = nullptr;
};

// The shared memory of a block of tokens; tap kTaps - 1 is the token itself.
template <class M>
struct TokenBlock {
  using Values = typename MixLane<M>::Values;
  using Highways = typename MixLane<M>::Highways;

  Highways* highways;  // [tokens, threads]
  Values* values;      // [tokens, kTaps, parts, warp]
  Tap<M>* taps;        // [tokens, kTaps]
  Keep<M>* keeps;      // [tokens]
  Gate* gates;         // [tokens, kTaps, stream_count]

  __device__ TokenBlock(std::byte* shared, int tokens, int parts)
      : highways(reinterpret_cast<Highways*>(shared)),
        values(reinterpret_cast<Values*>(highways + tokens * static_cast<int>(blockDim.x))),
        taps(reinterpret_cast<Tap<M>*>(values + tokens * M::kTaps * parts * kWarpThreads)),
        keeps(reinterpret_cast<Keep<M>*>(taps + tokens * M::kTaps)),
        gates(reinterpret_cast<Gate*>(keeps + tokens)) {}
  static std::size_t token_bytes(int parts, int stream_count) {
    const std::size_t lanes = static_cast<std::size_t>(parts) * kWarpThreads;
    const auto streams = static_cast<std::size_t>(stream_count);
    return lanes * (streams * sizeof(Highways) + M::kTaps * sizeof(Values)) +
           M::kTaps * (sizeof(Tap<M>) + streams * sizeof(Gate)) + sizeof(Keep<M>);
  }
};

// One thread's: finds where a tap of a token is, and for the token itself where it is kept.
template <class M>
__device__ void find_tap(const MixArgs& args, const TokenBlock<M>& block, int token, int at) {
  using Value = typename M::Value;
  const int tap = at % M::kTaps;
  Tap<M> found;
  Keep<M> keep;
  PleSpan span;
  if (find_span(args, token, span)) {
    const RingOf<Value> ring(args, span);
    const int index = token - span.token_begin;
    const int before = index - (M::kTaps - 1 - tap) * args.shape.dilation;
    if (before >= 0) {
      found.token = span.token_begin + before;
      found.values =
          static_cast<const Value*>(args.values) + std::int64_t{found.token} * args.shape.hidden;
      found.gates = args.gates + std::int64_t{found.token} * 2 * args.shape.stream_count;
    } else if (span.position + before >= 0) {
      const int entry = ring.entry_before(-before);
      found.values = ring.values(entry);
      found.gates = ring.gates(entry);
    }
    const int write = index - (span.token_count - span.write_count);
    if (write >= 0) {
      const int entry = ring.entry_of(write);
      keep = {ring.values(entry), ring.gates(entry)};
    }
  }
  block.taps[at] = found;
  if (tap == M::kTaps - 1) block.keeps[at / M::kTaps] = keep;
}

template <class M>
class TokenLane {
 public:
  using Values = typename MixLane<M>::Values;
  using Highways = typename MixLane<M>::Highways;

  __device__ TokenLane(const MixArgs& args, const TokenBlock<M>& block, int parts)
      : args_(args),
        block_(block),
        stream_(static_cast<int>(threadIdx.x) / kWarpThreads % args.shape.stream_count),
        part_(static_cast<int>(threadIdx.x) / kWarpThreads / args.shape.stream_count),
        parts_(parts),
        lane_(args, stream_, static_cast<int>(blockIdx.x) * parts + part_) {}

  __device__ const MixLane<M>& lane() const { return lane_; }

  // The gates of the block's taps: those of the rings, or those of the step.
  __device__ void share_gates(int count, bool of_step) const {
    if (part_ != 0) return;
    const int streams = args_.shape.stream_count;
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) % kWarpThreads; at < count * M::kTaps;
         at += kWarpThreads) {
      const Tap<M>& tap = block_.taps[at];
      if ((tap.token >= 0) != of_step) continue;
      Gate gate;
      if (tap.values != nullptr) gate = {tap.gates[stream_], tap.gates[streams + stream_]};
      block_.gates[at * streams + stream_] = gate;
    }
  }
  // The gates of the step's tokens from the product's sums, a warp for each.
  __device__ void make_gates(int count) const {
#pragma unroll 1
    for (int tap = 0; tap < M::kTaps; ++tap) {
#pragma unroll 1
      for (int i = part_; i < count; i += parts_) {
        const int at = i * M::kTaps + tap;
        const int token = block_.taps[at].token;
        if (token < 0) continue;
        const Gate gate = lane_.gate_of(token);
        if (threadIdx.x % kWarpThreads == 0) {
          block_.gates[at * args_.shape.stream_count + stream_] = gate;
        }
      }
    }
  }
  __device__ void ask_highways(int begin, int count) const {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const Highways* from = lane_.highway_at(begin + i);
      copy_ahead(block_.highways + i * static_cast<int>(blockDim.x) + threadIdx.x, from,
                 from != nullptr);
    }
  }
  // The values of this lane's channels; the streams take turns at the taps.
  __device__ void ask_values(int count, bool of_step) const {
#pragma unroll 1
    for (int at = stream_; at < count * M::kTaps; at += args_.shape.stream_count) {
      const Tap<M>& tap = block_.taps[at];
      if ((tap.token >= 0) != of_step) continue;
      const bool is_there = tap.values != nullptr && lane_.is_active();
      copy_ahead(values_at(at), reinterpret_cast<const Values*>(tap.values + lane_.channel()),
                 is_there);
    }
  }
  __device__ void mix(const LaneWeights<M>& weights, int token, int i) const {
    const int at = i * M::kTaps;
    if (block_.taps[at + kPast].values == nullptr || !lane_.is_active()) return;
    const Highways highway = block_.highways[i * static_cast<int>(blockDim.x) + threadIdx.x];
    Values values[M::kTaps];
    Gate gates[M::kTaps];
#pragma unroll
    for (int tap = 0; tap < M::kTaps; ++tap) {
      values[tap] = *values_at(at + tap);
      gates[tap] = block_.gates[(at + tap) * args_.shape.stream_count + stream_];
    }
    *lane_.output_at(token) = mix_taps<M>(weights, highway, values, gates);
    const Keep<M>& keep = block_.keeps[i];
    if (keep.values == nullptr) return;
    if (stream_ == 0) {
      *reinterpret_cast<Values*>(keep.values + lane_.channel()) = values[kPast];
    }
    if (lane_.channel() == 0) {
      keep.gates[stream_] = gates[kPast].gamma;
      keep.gates[args_.shape.stream_count + stream_] = gates[kPast].q;
    }
  }

 private:
  static constexpr int kPast = M::kTaps - 1;

  __device__ Values* values_at(int at) const {
    return block_.values + (at * parts_ + part_) * kWarpThreads + threadIdx.x % kWarpThreads;
  }

  const MixArgs& args_;
  const TokenBlock<M>& block_;
  const int stream_;
  const int part_;
  const int parts_;
  const MixLane<M> lane_;
};

// parts: of the channels, that a block has.
template <class M>
__global__ __launch_bounds__(kMaxBlockThreads,
                             1) void mix_blocks_kernel(const __grid_constant__ MixArgs args,
                                                       int block_tokens, int parts) {
  extern __shared__ __align__(16) std::byte shared[];
  const TokenBlock<M> block(shared, block_tokens, parts);
  const TokenLane<M> lane(args, block, parts);
  const int begin = static_cast<int>(blockIdx.y) * block_tokens;
  const int count = min(args.step.counts->token_count - begin, block_tokens);
  if (count > 0) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < count * M::kTaps;
         i += static_cast<int>(blockDim.x)) {
      find_tap(args, block, begin + i / M::kTaps, i);
    }
    lane.ask_highways(begin, count);
    const LaneWeights<M> weights(args, lane.lane());
    __syncthreads();
    lane.ask_values(count, false);
    lane.share_gates(count, false);
    wait_previous_kernel();
    lane.ask_values(count, true);
    commit_copies();
    if (args.gates != nullptr) {
      lane.share_gates(count, true);
    } else {
      lane.make_gates(count);
    }
    wait_copies<0>();
    __syncthreads();
#pragma unroll 1
    for (int i = 0; i < count; ++i) lane.mix(weights, begin + i, i);
  }
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

constexpr int ceil_div(int value, int by) { return (value + by - 1) / by; }

}  // namespace

Status mix_blocks_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int parts = ceil_div(args.shape.hidden, kWarpChannels);
  const int most = std::min(kMaxBlockThreads / kWarpThreads / args.shape.stream_count, parts);
  const int wanted = ceil_div(parts * args.token_capacity, args.multiprocessor_count);
  const int part_blocks = ceil_div(parts, std::min(wanted, most));
  const int block_parts = ceil_div(parts, part_blocks);
  return with_mode(args, [&]<class M>() -> Status {
    const auto token_bytes =
        static_cast<int>(TokenBlock<M>::token_bytes(block_parts, args.shape.stream_count));
    const int block_tokens =
        std::clamp(ceil_div(args.token_capacity * part_blocks, args.multiprocessor_count), 1,
                   kMaxSharedBytes / token_bytes);
    const int shared_bytes = block_tokens * token_bytes;
    const Launch shape{
        .grid = dim3(static_cast<unsigned>(part_blocks),
                     static_cast<unsigned>(ceil_div(args.token_capacity, block_tokens))),
        .block_threads = block_parts * args.shape.stream_count * kWarpThreads,
        .shared_bytes = shared_bytes,
        .is_overlapped = is_overlapped,
        .is_beside_product = true};
    PLE_CUDA_TRY(launch(mix_blocks_kernel<M>, shape, stream, args, block_tokens, block_parts));
    return {};
  });
}

}  // namespace ple::kernels
