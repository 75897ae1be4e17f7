#pragma once

#include "kernels/async_copies.cuh"
#include "kernels/ple_gate.cuh"

// Everything behind the product in one pass: gate, norm, convolution, SiLU, the add into the
// highway, the rings. A warp has one stream and 256 channels, eight a lane; a block has all streams
// of these channels, so that the values are read once.

namespace ple::kernels {

inline constexpr int kLaneChannels = 8;
inline constexpr int kWarpChannels = kWarpThreads * kLaneChannels;
inline constexpr int kMaxMixThreads = 8 * kWarpThreads;  // as many streams as are allowed

// What the templates make of the arithmetic and the highway.
template <class Value_, class Highway_, bool kReference_, int kTaps_>
struct Mode {
  using Value = Value_;
  using Highway = Highway_;
  static constexpr bool kReference = kReference_;
  static constexpr int kTaps = kTaps_;
};

__device__ inline float silu(float y) { return y * sigmoid(y); }

// Copies a lane's vector into shared memory; zeros in place of one that is not there.
template <class T>
__device__ void copy_ahead(Vector8<T>* to, const Vector8<T>* from, bool is_there) {
  constexpr int kVectors = sizeof(Vector8<T>) / 16;
  const std::uint32_t address = shared_address(to);
#pragma unroll
  for (int i = 0; i < kVectors; ++i) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address + 16 * i),
                 "l"(reinterpret_cast<const uint4*>(from) + i), "r"(is_there ? 16 : 0)
                 : "memory");
  }
}

// The span of a token, if it has one. While decoding it has the token's index: that one is read
// before the index is known.
__device__ inline bool find_span(const MixArgs& args, int token, PleSpan& span) {
  const int index = args.step.token_span[token];
  span = args.step.spans[token < args.span_capacity ? token : 0];
  if (index >= 0 && index != token) span = args.step.spans[index];
  return index >= 0;
}

// The ring of a span: entries of values [ring_length, hidden], then gates [ring_length, 2,
// stream_count].
template <class Value>
class RingOf {
 public:
  __device__ RingOf(const MixArgs& args, const PleSpan& span)
      : ring_(span.ring),
        cursor_(span.cursor),
        length_(args.ring_length),
        hidden_(args.shape.hidden),
        gate_count_(2 * args.shape.stream_count) {}

  // Of a position before the span's first token.
  __device__ int entry_before(int distance) const {
    const int entry = cursor_ - distance;
    return entry < 0 ? entry + length_ : entry;
  }
  // Of one of the tokens that the step keeps.
  __device__ int entry_of(int write) const {
    const int entry = cursor_ + write;
    return entry >= length_ ? entry - length_ : entry;
  }
  __device__ Value* values(int entry) const {
    return reinterpret_cast<Value*>(ring_) + std::int64_t{entry} * hidden_;
  }
  __device__ float* gates(int entry) const {
    const std::int64_t value_bytes =
        (std::int64_t{length_} * hidden_ * sizeof(Value) + 15) / 16 * 16;
    return reinterpret_cast<float*>(ring_ + value_bytes) + std::int64_t{entry} * gate_count_;
  }

 private:
  std::byte* ring_;
  int cursor_;
  int length_;
  int hidden_;
  int gate_count_;
};

// A lane's channels in the tensors of a step.
template <class M>
class MixLane {
 public:
  using Value = typename M::Value;
  using Values = Vector8<Value>;
  using Highways = Vector8<typename M::Highway>;

  // part: which kWarpChannels of the channels.
  __device__ MixLane(const MixArgs& args, int stream, int part)
      : args_(args),
        stream_(stream),
        channel_(part * kWarpChannels +
                 static_cast<int>(threadIdx.x) % kWarpThreads * kLaneChannels),
        is_active_(channel_ < args.shape.hidden) {}

  // Of the [stream_count, hidden] vectors; a lane without channels reads those of another.
  __device__ std::int64_t weights_at() const {
    return std::int64_t{stream_} * args_.shape.hidden + (is_active_ ? channel_ : 0);
  }

  __device__ bool is_active() const { return is_active_; }
  __device__ int channel() const { return channel_; }

  // Where the product left only sums, the warp makes the gate of them.
  __device__ Gate gate_of(std::int64_t token) const {
    if (args_.gates != nullptr) return stored_gate(token);
    return GateSums<1>(args_.shape, PleTiles(args_.shape), args_.sums, token, stream_)
        .gate(args_.shape, 0);
  }
  __device__ Gate stored_gate(std::int64_t token) const {
    const float* gates = gates_at(token);
    return {gates[0], gates[args_.shape.stream_count]};
  }
  __device__ const float* gates_at(std::int64_t token) const {
    return args_.gates + token * 2 * args_.shape.stream_count + stream_;
  }
  // This lane's vectors of a token; null where it has none. highway_at: what the output starts
  // from.
  __device__ const Values* values_at(std::int64_t token) const {
    if (!is_active_) return nullptr;
    return reinterpret_cast<const Values*>(static_cast<const Value*>(args_.values) +
                                           token * args_.shape.hidden + channel_);
  }
  __device__ const Highways* highway_at(std::int64_t token) const {
    if (!is_active_ || args_.output_mode == OutputMode::delta) return nullptr;
    return reinterpret_cast<const Highways*>(
        static_cast<const typename M::Highway*>(args_.highway) + element_at(token));
  }
  __device__ Values values_of(std::int64_t token) const {
    const Values* values = values_at(token);
    return values != nullptr ? *values : Values{};
  }
  __device__ Highways highway_of(std::int64_t token) const {
    const Highways* highway = highway_at(token);
    return highway != nullptr ? *highway : Highways{};
  }
  __device__ Highways* output_at(std::int64_t token) const {
    if (!is_active_) return nullptr;
    return reinterpret_cast<Highways*>(static_cast<typename M::Highway*>(args_.output) +
                                       element_at(token));
  }

  // A position of a span's ring, before (negative) its first token in this step; zero where the
  // sequence had not begun.
  __device__ void load_ring(const PleSpan& span, int before, Values& values, Gate& gate) const {
    values = {};
    gate = {};
    if (span.position + before < 0) return;
    const RingOf<Value> ring(args_, span);
    const int entry = ring.entry_before(-before);
    const float* gates = ring.gates(entry) + stream_;
    gate = {gates[0], gates[args_.shape.stream_count]};
    if (is_active_) values = *reinterpret_cast<const Values*>(ring.values(entry) + channel_);
  }
  // Where this lane keeps its part of a span's token for the next step; null where it has none.
  struct RingPlace {
    Values* values = nullptr;
    float* gates = nullptr;
  };
  __device__ RingPlace ring_place(const PleSpan& span, int index) const {
    const int write = index - (span.token_count - span.write_count);
    if (write < 0) return {};  // it is none of the last
    const RingOf<Value> ring(args_, span);
    const int entry = ring.entry_of(write);
    RingPlace place;
    if (stream_ == 0 && is_active_) {
      place.values = reinterpret_cast<Values*>(ring.values(entry) + channel_);
    }
    if (channel_ == 0) place.gates = ring.gates(entry) + stream_;
    return place;
  }
  __device__ void store_ring(const RingPlace& place, const Values& values, Gate gate) const {
    if (place.values != nullptr) *place.values = values;
    if (place.gates == nullptr) return;
    place.gates[0] = gate.gamma;
    place.gates[args_.shape.stream_count] = gate.q;
  }

  // A tap of the convolution (specification A.5, steps 11 to 14): weight times input, with 1 +
  // w_conv in the weight where nothing is rounded in between.
  __device__ static float weight(float conv, float scale) {
    return M::kReference ? conv : __fmul_rn(conv, scale);
  }
  __device__ static float input(float value, Gate gate, float scale) {
    if constexpr (!M::kReference) return __fmul_rn(value, __fmul_rn(gate.gamma, gate.q));
    return round_bf16(round_bf16(gate.gamma * value) * gate.q * scale);
  }
  // Steps 14 to 17 for one channel; y is the convolution.
  __device__ static float mixed(float highway, float value, Gate gate, float y) {
    if constexpr (!M::kReference) {
      return __fadd_rn(highway, __fmaf_rn(gate.gamma, value, silu(y)));
    }
    const float z = round_bf16(silu(round_bf16(y)));
    return highway + round_bf16(round_bf16(gate.gamma * value) + z);
  }

 private:
  __device__ std::int64_t element_at(std::int64_t token) const {
    return (token * args_.shape.stream_count + stream_) * args_.shape.hidden + channel_;
  }

  const MixArgs& args_;
  const int stream_;
  const int channel_;
  const bool is_active_;
};

// The convolution's weights of a lane.
template <class M>
struct LaneWeights {
  float taps[M::kTaps][kLaneChannels];
  float scale[kLaneChannels];  // 1 + w_conv

  __device__ LaneWeights(const MixArgs& args, const MixLane<M>& lane) {
    using Vector = Vector8<std::uint16_t>;
    const auto norm = *reinterpret_cast<const Vector*>(args.vectors.norm_conv + lane.weights_at());
    const auto* from =
        reinterpret_cast<const Vector*>(args.vectors.conv + lane.weights_at() * M::kTaps);
    Vector conv[M::kTaps];  // [kLaneChannels, kTaps] elements
#pragma unroll
    for (int i = 0; i < M::kTaps; ++i) conv[i] = from[i];
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      scale[i] = args.vectors.norm_offset + norm[i];
#pragma unroll
      for (int tap = 0; tap < M::kTaps; ++tap) {
        const int at = i * M::kTaps + tap;
        taps[tap][i] = lane.weight(conv[at / kLaneChannels][at % kLaneChannels], scale[i]);
      }
    }
  }
};

// A token's channels; the last tap is the token itself.
template <class M>
__device__ typename MixLane<M>::Highways mix_taps(
    const LaneWeights<M>& weights, const typename MixLane<M>::Highways& highway,
    const typename MixLane<M>::Values (&values)[M::kTaps], const Gate (&gates)[M::kTaps]) {
  constexpr int kLast = M::kTaps - 1;
  float out[kLaneChannels];
#pragma unroll
  for (int i = 0; i < kLaneChannels; ++i) {
    float y = 0.0F;
#pragma unroll
    for (int tap = 0; tap < M::kTaps; ++tap) {
      const float input = MixLane<M>::input(values[tap][i], gates[tap], weights.scale[i]);
      y = __fmaf_rn(weights.taps[tap][i], input, y);
    }
    out[i] = MixLane<M>::mixed(highway[i], values[kLast][i], gates[kLast], y);
  }
  return MixLane<M>::Highways::of(out);
}

// Calls launch.template operator()<M>() with the mode of the arguments.
template <class V, class H, bool kReference, class F>
Status with_taps(const MixArgs& args, F&& launch) {
  switch (args.shape.tap_count) {
    case 2:
      return launch.template operator()<Mode<V, H, kReference, 2>>();
    case 3:
      return launch.template operator()<Mode<V, H, kReference, 3>>();
    case 4:
      return launch.template operator()<Mode<V, H, kReference, 4>>();
    default:
      return Status(StatusCode::unsupported, "PLE layer on CUDA: a convolution of 2 to 4 taps");
  }
}

template <class H, class F>
Status with_arithmetic(const MixArgs& args, F&& launch) {
  switch (args.arithmetic) {
    case Arithmetic::float32:
      return with_taps<float, H, false>(args, launch);
    case Arithmetic::mixed:
      return with_taps<std::uint16_t, H, false>(args, launch);
    case Arithmetic::reference:
      return with_taps<std::uint16_t, H, true>(args, launch);
  }
  return Status(StatusCode::invalid_argument, "PLE layer on CUDA: an unknown arithmetic");
}

template <class F>
Status with_mode(const MixArgs& args, F&& launch) {
  if (args.highway_type == HighwayType::f32) return with_arithmetic<float>(args, launch);
  return with_arithmetic<std::uint16_t>(args, launch);
}

}  // namespace ple::kernels
