#include "device/cuda_check.hpp"
#include "kernels/engram_stages_cuda.hpp"
#include "kernels/ple_gate.cuh"

// The last pass of the Engram layer (specification B.2): a block has one stream of one token.

namespace ple::kernels {

namespace {

constexpr int kChannelThreads = 320;
constexpr int kBlockThreads = kChannelThreads + kWarpThreads;  // the last warp takes the gate
constexpr int kBlocksPerMultiprocessor = 3;
constexpr int kLaneChannels = 8;
// Vectors of a lane that are asked for at once: all, in the released model.
constexpr int kBatch = 2;

template <class Value, class T>
__global__ __launch_bounds__(kBlockThreads, kBlocksPerMultiprocessor) void inject_kernel(
    const __grid_constant__ InjectArgs args) {
  __shared__ float block_gate;
  start_next_kernel();
  const int hidden = args.shape.hidden;
  const std::int64_t token = blockIdx.x / args.shape.stream_count;
  const int stream = static_cast<int>(blockIdx.x - token * args.shape.stream_count);
  const int lane = static_cast<int>(threadIdx.x);
  if (lane >= kChannelThreads) {
    wait_previous_kernel();
    const GateSums<1, false> sums(args.shape, PleTiles(args.shape), args.sums, token, stream);
    if (lane == kChannelThreads) {
      block_gate = signed_gate_of_similarity(sums.score(args.shape, 0));
    }
    __syncthreads();
    return;
  }
  const auto* values = reinterpret_cast<const Vector8<Value>*>(
      static_cast<const Value*>(args.values) + token * hidden);
  const std::int64_t first = (token * args.shape.stream_count + stream) * hidden;
  const auto* highway =
      reinterpret_cast<const Vector8<T>*>(static_cast<const T*>(args.highway) + first);
  auto* output = reinterpret_cast<Vector8<T>*>(static_cast<T*>(args.output) + first);
  const bool is_update = args.output_mode == OutputMode::update;
  const int vector_count = hidden / kLaneChannels;

  Vector8<T> old[kBatch];
  const auto load_highway = [&](int begin) {
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = begin + i * kChannelThreads;
      if (is_update && at < vector_count) old[i] = highway[at];
    }
  };
  load_highway(lane);  // while the product runs
  wait_previous_kernel();
  const bool is_token = token < args.counts->token_count;
  const bool is_dead = args.dead[token] != 0;
  for (int begin = lane; begin < vector_count; begin += kBatch * kChannelThreads) {
    Vector8<Value> value[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = begin + i * kChannelThreads;
      if (at < vector_count) value[i] = values[at];
    }
    if (begin == lane) {
      __syncthreads();
      if (!is_token) return;
    } else {
      load_highway(begin);
    }
    const float gate = block_gate;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const int at = begin + i * kChannelThreads;
      if (at >= vector_count) break;
      float out[kLaneChannels];
#pragma unroll
      for (int j = 0; j < kLaneChannels; ++j) {
        const float added = is_dead ? 0.0F : __fmul_rn(gate, value[i][j]);
        out[j] = !is_update ? added : is_dead ? old[i][j] : __fadd_rn(old[i][j], added);
      }
      output[at] = Vector8<T>::of(out);
    }
  }
}

}  // namespace

Status inject_cuda(const InjectArgs& args, bool is_overlapped, cudaStream_t stream) {
  const Launch shape{
      .grid = dim3(static_cast<unsigned>(args.token_capacity * args.shape.stream_count)),
      .block_threads = kBlockThreads,
      .is_overlapped = is_overlapped,
      .is_beside_product = true};
  const bool is_f32 = args.highway_type == HighwayType::f32;
  const auto kernel = args.has_bf16_values ? is_f32 ? inject_kernel<std::uint16_t, float>
                                                    : inject_kernel<std::uint16_t, std::uint16_t>
                      : is_f32 ? inject_kernel<float, float>
                                           : inject_kernel<float, std::uint16_t>;
  PLE_CUDA_TRY(launch(kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
