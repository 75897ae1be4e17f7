#include "device/cuda_check.hpp"
#include "kernels/ple_gate.cuh"

// Ring entries from values and gates: a block has one entry, a warp one stream.

namespace ple::kernels {

namespace {

constexpr int kMaxBlockThreads = 256;

template <class T>
__global__ __launch_bounds__(kMaxBlockThreads) void rebuild_entries_kernel(
    const __grid_constant__ RebuildArgs args) {
  wait_previous_kernel();
  const std::int64_t token = blockIdx.x;
  if (token >= args.counts->token_count) return;
  const PleTiles tiles(args.shape);
  const int hidden = args.shape.hidden;
  const int stream = static_cast<int>(threadIdx.x) / kWarpThreads;
  const std::int64_t entry = (args.entry_begin + token) % args.ring_length;
  const T* values = static_cast<const T*>(args.values) + token * hidden;
  T* ring_values = reinterpret_cast<T*>(args.ring) + entry * hidden;
  for (int d = static_cast<int>(threadIdx.x); d < hidden; d += static_cast<int>(blockDim.x)) {
    ring_values[d] = values[d];
  }

  const float gamma = args.gamma[token * args.shape.stream_count + stream];
  float q = 0.0F;
  if constexpr (sizeof(T) == 2) {
    if (args.arithmetic == Arithmetic::reference) q = q_from_values(args.shape, values, gamma);
  }
  if (args.arithmetic != Arithmetic::reference) {
    float value = 0.0F;
    for (int group = static_cast<int>(threadIdx.x) % kWarpThreads; group < tiles.groups_per_stream;
         group += kWarpThreads) {
      value += value_sum(args.sums, tiles, token, group);
    }
    q = q_of(gamma * gamma * warp_sum(value), args.shape);
  }
  if (threadIdx.x % kWarpThreads != 0) return;
  const std::int64_t value_bytes =
      (std::int64_t{args.ring_length} * hidden * sizeof(T) + 15) / 16 * 16;
  float* gates = reinterpret_cast<float*>(args.ring + value_bytes) +
                 entry * 2 * args.shape.stream_count + stream;
  gates[0] = gamma;
  gates[args.shape.stream_count] = q;
}

}  // namespace

Status rebuild_entries_cuda(const RebuildArgs& args, bool is_overlapped, cudaStream_t stream) {
  const Launch shape{.grid = dim3(static_cast<unsigned>(args.token_capacity)),
                     .block_threads = args.shape.stream_count * kWarpThreads,
                     .is_overlapped = is_overlapped};
  const auto kernel = args.arithmetic == Arithmetic::float32
                          ? rebuild_entries_kernel<float>
                          : rebuild_entries_kernel<std::uint16_t>;
  PLE_CUDA_TRY(launch(kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
