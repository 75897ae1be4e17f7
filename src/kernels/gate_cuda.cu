#include "device/cuda_check.hpp"
#include "kernels/ple_gate.cuh"

// The gates of a step whose last pass does not make them itself.

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 128;
constexpr int kBlockWarps = kBlockThreads / kWarpThreads;
constexpr int kStreams = 4;  // whose sums a warp takes at once

struct GateIndex {
  std::int64_t token;
  int stream;
};

__device__ std::int64_t warp_index() {
  return std::int64_t{blockIdx.x} * kBlockWarps + static_cast<int>(threadIdx.x) / kWarpThreads;
}

__device__ GateIndex gate_index(const PleShape& shape) {
  const std::int64_t token = warp_index() / shape.stream_count;
  return {token, static_cast<int>(warp_index() - token * shape.stream_count)};
}

__global__ __launch_bounds__(kBlockThreads) void gate_kernel(
    const __grid_constant__ GateArgs args) {
  wait_previous_kernel();
  start_next_kernel();
  const PleTiles tiles(args.shape);
  const int batches = (args.shape.stream_count + kStreams - 1) / kStreams;
  const std::int64_t token = warp_index() / batches;
  if (token >= args.counts->token_count) return;
  const int first = static_cast<int>(warp_index() - token * batches) * kStreams;
  const GateSums<kStreams> sums(args.shape, tiles, args.sums, token, first);
  // A lane for each stream.
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  if (lane >= kStreams || first + lane >= args.shape.stream_count) return;
  const Gate gate = sums.gate(args.shape, lane);
  float* gates = args.gates + token * 2 * args.shape.stream_count + first + lane;
  gates[0] = gate.gamma;
  gates[args.shape.stream_count] = gate.q;
}

// The roundings of steps 4 to 10, one warp for each token and stream: the keys are normalised and
// rounded before they are multiplied.
template <class T>
__global__ __launch_bounds__(kBlockThreads) void gate_reference_kernel(
    const __grid_constant__ GateArgs args) {
  wait_previous_kernel();
  start_next_kernel();
  const GateIndex at = gate_index(args.shape);
  if (at.token >= args.counts->token_count) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
  const int hidden = args.shape.hidden;
  const std::int64_t channel = std::int64_t{at.stream} * hidden;
  const std::int64_t first = at.token * args.shape.stream_count * hidden + channel;
  const std::uint16_t* key = args.keys + first;
  const T* highway = static_cast<const T*>(args.highway) + first;
  const auto element = [](T value) {
    if constexpr (sizeof(T) == 2)
      return bf16_value(value);
    else
      return value;
  };

  float key_sum = 0.0F;
  float highway_sum = 0.0F;
  for (int d = lane; d < hidden; d += kWarpThreads) {
    const float k = bf16_value(key[d]);
    const float r = element(highway[d]);
    key_sum += k * k;
    highway_sum += r * r;
  }
  const float key_scale = inverse_root_mean(warp_sum(key_sum), args.shape);
  const float query_scale = inverse_root_mean(warp_sum(highway_sum), args.shape);
  const float offset = args.vectors.norm_offset;
  float dot = 0.0F;
  for (int d = lane; d < hidden; d += kWarpThreads) {
    const float key_weight = offset + bf16_value(args.vectors.norm_key[channel + d]);
    const float query_weight = offset + bf16_value(args.vectors.norm_query[channel + d]);
    const float k = round_bf16(bf16_value(key[d]) * key_scale * key_weight);
    const float r = round_bf16(element(highway[d]) * query_scale * query_weight);
    dot += round_bf16(k * r);
  }
  const float s = round_bf16(round_bf16(warp_sum(dot)) / sqrtf(static_cast<float>(hidden)));
  const float magnitude = fabsf(s) < 1e-6F ? round_bf16(1e-6F) : fabsf(s);
  const float root = s == 0.0F ? 0.0F : copysignf(round_bf16(sqrtf(magnitude)), s);
  Gate gate;
  gate.gamma = round_bf16(1.0F / (1.0F + expf(-root)));
  gate.q = q_from_values(
      args.shape, static_cast<const std::uint16_t*>(args.values) + at.token * hidden, gate.gamma);
  if (lane != 0) return;
  float* gates = args.gates + at.token * 2 * args.shape.stream_count + at.stream;
  gates[0] = gate.gamma;
  gates[args.shape.stream_count] = gate.q;
}

Launch gate_launch(std::int64_t warps, bool is_overlapped) {
  return {.grid = dim3(static_cast<unsigned>((warps + kBlockWarps - 1) / kBlockWarps)),
          .block_threads = kBlockThreads,
          .is_overlapped = is_overlapped};
}

}  // namespace

Status gate_cuda(const GateArgs& args, bool is_overlapped, cudaStream_t stream) {
  const int batches = (args.shape.stream_count + kStreams - 1) / kStreams;
  const std::int64_t warps = std::int64_t{args.token_capacity} * batches;
  PLE_CUDA_TRY(launch(gate_kernel, gate_launch(warps, is_overlapped), stream, args));
  return {};
}

Status gate_reference_cuda(const GateArgs& args, bool is_overlapped, cudaStream_t stream) {
  const auto kernel = args.highway_type == HighwayType::f32 ? gate_reference_kernel<float>
                                                            : gate_reference_kernel<std::uint16_t>;
  const std::int64_t warps = std::int64_t{args.token_capacity} * args.shape.stream_count;
  PLE_CUDA_TRY(launch(kernel, gate_launch(warps, is_overlapped), stream, args));
  return {};
}

}  // namespace ple::kernels
