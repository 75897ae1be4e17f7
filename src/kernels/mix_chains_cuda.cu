#include <algorithm>
#include <utility>

#include "device/cuda_check.hpp"
#include "kernels/mix.cuh"

// The last pass for many tokens. A block walks a chain of tokens a dilation apart, on which the
// convolution's window moves through registers. Highway and values are asked for several tokens
// ahead, into shared memory, where each lane reads only what it asked for itself.

namespace ple::kernels {

namespace {

constexpr int kAhead = 8;                    // tokens, a power of two
constexpr int kBlocksPerMultiprocessor = 2;  // of the most threads

template <class M>
class Chain {
 public:
  using Values = typename MixLane<M>::Values;
  using Highways = typename MixLane<M>::Highways;

  // Shared memory of a thread.
  static constexpr int kSharedBytes = kAhead * static_cast<int>(sizeof(Highways) + sizeof(Values));

  __device__ Chain(const MixArgs& args, std::byte* shared, int begin, int end)
      : args_(args),
        lane_(args, static_cast<int>(threadIdx.x) / kWarpThreads, static_cast<int>(blockIdx.x)),
        highways_(reinterpret_cast<Highways*>(shared) + threadIdx.x),
        values_(reinterpret_cast<Values*>(shared + kAhead * blockDim.x * sizeof(Highways)) +
                threadIdx.x),
        step_(args.shape.dilation),
        end_(end),
        slot_end_(kAhead * static_cast<int>(blockDim.x)),
        stride_(std::int64_t{step_} * args.shape.stream_count * args.shape.hidden / kLaneChannels),
        value_stride_(std::int64_t{step_} * args.shape.hidden / kLaneChannels),
        gate_stride_(step_ * 2 * args.shape.stream_count),
        has_highway_(lane_.highway_at(begin) != nullptr),
        has_channels_(lane_.values_at(begin) != nullptr),
        highway_(lane_.highway_at(begin)),
        value_(lane_.values_at(begin)),
        output_(lane_.output_at(begin)),
        gates_(lane_.gates_at(begin)),
        token_(begin),
        ahead_(begin),
        weights_(args, lane_) {}

  __device__ void run() {
    for (int i = 0; i < kAhead; ++i) ask();
    wait_previous_kernel();  // for the gates; what the product wrote was there before they began
    next_gate_ = gate_at(gates_);
    while (token_ < end_) round(std::make_integer_sequence<int, kPast>());
  }

 private:
  static constexpr int kPast = M::kTaps - 1;

  // kPast tokens, after which the window's registers are where they were.
  template <int... kPhases>
  __device__ void round(std::integer_sequence<int, kPhases...>) {
    (advance<kPhases>(), ...);
  }

  __device__ Gate gate_at(const float* gates) const {
    return {gates[0], gates[args_.shape.stream_count]};
  }

  // One token. The tap that lies furthest back is in window_[kPhase], where this token's goes.
  template <int kPhase>
  __device__ void advance() {
    if (token_ >= end_) return;
    const Gate gate = next_gate_;
    gates_ += gate_stride_;
    if (token_ + step_ < end_) next_gate_ = gate_at(gates_);
    wait_copies<kAhead - 1>();
    const Highways highway = highways_[slot_];
    const Values values = values_[slot_];
    ask();
    if (token_ >= run_end_) enter_run<kPhase>();
    if (span_index_ >= 0) {
      mix<kPhase>(highway, values, gate);
      if (token_ >= ring_begin_) {
        lane_.store_ring(lane_.ring_place(span_, token_ - span_.token_begin), values, gate);
      }
    }
    token_ += step_;
    output_ += stride_;
  }

  // From here to run_end_ the tokens are of one span, or of none.
  template <int kPhase>
  __device__ void enter_run() {
    span_index_ = args_.step.token_span[token_];
    run_end_ = token_ + 1;
    if (span_index_ < 0) return;
    span_ = args_.step.spans[span_index_];
    run_end_ = span_.token_begin + span_.token_count;
    ring_begin_ = run_end_ - span_.write_count;
    load_window<kPhase>(token_ - span_.token_begin);
  }

  // Asks for the next token, into the place of the one just read.
  __device__ void ask() {
    const bool is_token = ahead_ < end_;
    copy_ahead(&highways_[slot_], highway_, is_token && has_highway_);
    copy_ahead(&values_[slot_], value_, is_token && has_channels_);
    ahead_ += step_;
    highway_ += stride_;
    value_ += value_stride_;
    slot_ += static_cast<int>(blockDim.x);
    if (slot_ == slot_end_) slot_ = 0;
    commit_copies();
  }

  template <int kPhase>
  __device__ void load_window(int index) {
#pragma unroll
    for (int tap = 0; tap < kPast; ++tap) {
      const int before = index - (kPast - tap) * step_;
      Values values;
      Gate gate;
      if (before < 0) {
        lane_.load_ring(span_, before, values, gate);
      } else {
        values = lane_.values_of(span_.token_begin + before);
        gate = lane_.stored_gate(span_.token_begin + before);
      }
#pragma unroll
      for (int i = 0; i < kLaneChannels; ++i) {
        window_[(kPhase + tap) % kPast][i] = MixLane<M>::input(values[i], gate, weights_.scale[i]);
      }
    }
  }

  template <int kPhase>
  __device__ void mix(const Highways& highway, const Values& values, Gate gate) {
    float out[kLaneChannels];
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      const float input = MixLane<M>::input(values[i], gate, weights_.scale[i]);
      float y = 0.0F;
#pragma unroll
      for (int tap = 0; tap < kPast; ++tap) {
        y = __fmaf_rn(weights_.taps[tap][i], window_[(kPhase + tap) % kPast][i], y);
      }
      y = __fmaf_rn(weights_.taps[kPast][i], input, y);
      out[i] = MixLane<M>::mixed(highway[i], values[i], gate, y);
      window_[kPhase][i] = input;
    }
    if (has_channels_) *output_ = Highways::of(out);
  }

  const MixArgs& args_;
  const MixLane<M> lane_;
  Highways* const highways_;  // [kAhead, threads], this lane's
  Values* const values_;      // [kAhead, threads], this lane's
  const int step_;
  const int end_;
  const int slot_end_;
  const std::int64_t stride_;  // to the next token's vector of the highway
  const std::int64_t value_stride_;
  const int gate_stride_;
  const bool has_highway_;
  const bool has_channels_;
  const Highways* highway_;  // of ahead_
  const Values* value_;
  Highways* output_;  // of token_
  const float* gates_;
  int token_;
  int ahead_;  // the next token to ask for
  int slot_ = 0;
  Gate next_gate_;
  int run_end_ = 0;
  int ring_begin_ = 0;
  int span_index_ = -1;
  PleSpan span_;
  const LaneWeights<M> weights_;
  float window_[kPast][kLaneChannels];
};

template <class M>
__global__ __launch_bounds__(kMaxMixThreads, kBlocksPerMultiprocessor) void mix_chains_kernel(
    const __grid_constant__ MixArgs args, int chain_tokens) {
  extern __shared__ __align__(16) std::byte shared[];
  const int step = args.shape.dilation;
  const int chain = static_cast<int>(blockIdx.y);
  const int begin = chain / step * step * chain_tokens + chain % step;
  const int end = min(args.step.counts->token_count, begin + step * chain_tokens);
  if (begin < end) Chain<M>(args, shared, begin, end).run();
  wait_previous_kernel();  // the step must not seem to have ended before it has
}

constexpr int ceil_div(int value, int by) { return (value + by - 1) / by; }

// The tokens of a block: all chains run at once.
int chain_tokens_of(const MixArgs& args, int channel_blocks, int threads) {
  const int resident =
      args.multiprocessor_count * kBlocksPerMultiprocessor * (kMaxMixThreads / threads);
  const int chains = std::max(resident / (channel_blocks * args.shape.dilation), 1);
  return ceil_div(args.token_capacity, chains * args.shape.dilation);
}

}  // namespace

Status mix_chains_cuda(const MixArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int channel_blocks = ceil_div(args.shape.hidden, kWarpChannels);
  const int threads = args.shape.stream_count * kWarpThreads;
  const int chain_tokens = chain_tokens_of(args, channel_blocks, threads);
  const int chains =
      ceil_div(args.token_capacity, args.shape.dilation * chain_tokens) * args.shape.dilation;
  return with_mode(args, [&]<class M>() -> Status {
    const int shared_bytes = threads * Chain<M>::kSharedBytes;
    const Launch shape{
        .grid = dim3(static_cast<unsigned>(channel_blocks), static_cast<unsigned>(chains)),
        .block_threads = threads,
        .shared_bytes = shared_bytes,
        .is_overlapped = is_overlapped};
    PLE_CUDA_TRY(launch(mix_chains_kernel<M>, shape, stream, args, chain_tokens));
    return {};
  });
}

}  // namespace ple::kernels
