#include "device/cuda_check.hpp"
#include "kernels/engram_stages_cuda.hpp"
#include "kernels/ple_gate.cuh"

// The last pass of the Engram layer (specification B.2): a block has one stream of one token.

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 320;
constexpr int kLaneChannels = 8;
constexpr int kEarlyVectors =
    2;  // of a lane, read while the product runs: all, in the released model

template <class Value, class T>
__global__ __launch_bounds__(kBlockThreads) void inject_kernel(
    const __grid_constant__ InjectArgs args) {
  __shared__ float block_gate;
  start_next_kernel();
  const int hidden = args.shape.hidden;
  const std::int64_t token = blockIdx.x / args.shape.stream_count;
  const int stream = static_cast<int>(blockIdx.x - token * args.shape.stream_count);
  const auto* values = reinterpret_cast<const Vector8<Value>*>(
      static_cast<const Value*>(args.values) + token * hidden);
  const std::int64_t first = (token * args.shape.stream_count + stream) * hidden;
  const auto* highway =
      reinterpret_cast<const Vector8<T>*>(static_cast<const T*>(args.highway) + first);
  auto* output = reinterpret_cast<Vector8<T>*>(static_cast<T*>(args.output) + first);
  const bool is_update = args.output_mode == OutputMode::update;
  const int vector_count = hidden / kLaneChannels;
  const int lane = static_cast<int>(threadIdx.x);

  Vector8<T> early[kEarlyVectors];
#pragma unroll
  for (int i = 0; i < kEarlyVectors; ++i) {
    const int at = lane + i * kBlockThreads;
    if (is_update && at < vector_count) early[i] = highway[at];
  }
  wait_previous_kernel();
  if (token >= args.counts->token_count) return;
  const bool is_dead = args.dead[token] != 0;
  if (lane < kWarpThreads) {
    const GateSums<1, false> sums(args.shape, PleTiles(args.shape), args.sums, token, stream);
    if (lane == 0) block_gate = signed_gate_of_similarity(sums.score(args.shape, 0));
  }
  __syncthreads();
  const float gate = block_gate;
  const auto finish = [&](int at, const Vector8<T>& old) {
    const Vector8<Value> value = values[at];
    float out[kLaneChannels];
#pragma unroll
    for (int i = 0; i < kLaneChannels; ++i) {
      const float added = is_dead ? 0.0F : __fmul_rn(gate, value[i]);
      out[i] = !is_update ? added : is_dead ? old[i] : __fadd_rn(old[i], added);
    }
    output[at] = Vector8<T>::of(out);
  };
#pragma unroll
  for (int i = 0; i < kEarlyVectors; ++i) {
    const int at = lane + i * kBlockThreads;
    if (at < vector_count) finish(at, early[i]);
  }
  for (int at = lane + kEarlyVectors * kBlockThreads; at < vector_count; at += kBlockThreads) {
    finish(at, is_update ? highway[at] : Vector8<T>{});
  }
}

}  // namespace

Status inject_cuda(const InjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(args.token_capacity * args.shape.stream_count)),
      .block_threads = kBlockThreads,
      .is_overlapped = is_overlapped};
  const bool is_f32 = args.highway_type == HighwayType::f32;
  const auto kernel = args.has_bf16_values ? is_f32 ? inject_kernel<std::uint16_t, float>
                                                    : inject_kernel<std::uint16_t, std::uint16_t>
                      : is_f32 ? inject_kernel<float, float>
                                           : inject_kernel<float, std::uint16_t>;
  PLE_CUDA_TRY(launch(kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
