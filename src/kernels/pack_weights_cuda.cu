#include "device/cuda_check.hpp"
#include "device/cuda_memory.hpp"
#include "kernels/pack_projection.cuh"
#include "kernels/ple_layer_cuda.hpp"

namespace ple::kernels {

namespace {

// A PLE layer's matrices as a checkpoint stores them.
struct StoredProjection {
  PleShape shape;
  const std::uint16_t* key;
  const std::uint16_t* value;
  __device__ std::uint16_t at(int stream, int column, int k) const {
    const bool is_value = stream == shape.stream_count;
    const std::int64_t row = is_value ? column : std::int64_t{stream} * shape.hidden + column;
    return (is_value ? value : key)[row * shape.embed_dim + k];
  }
};

__global__ __launch_bounds__(kPackThreads) void gate_scale_kernel(PleVectors vectors, float* out,
                                                                  std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  if (i >= count) return;
  out[i] = (vectors.norm_offset + bf16_value(vectors.norm_key[i])) *
           (vectors.norm_offset + bf16_value(vectors.norm_query[i]));
}

}  // namespace

Status pack_ple_weights_cuda(const PackPleWeightsArgs& args, cudaStream_t stream) {
  PLE_TRY(check_ple_shape_cuda(args.shape));
  const PleWeightsCuda out = PleWeightsCuda::view(args.memory, args.shape, args.vectors);
  const std::int64_t channels = std::int64_t{args.shape.stream_count} * args.shape.hidden;
  const auto copy = [&](const std::uint16_t* to, const std::uint16_t* from, std::int64_t count) {
    return copy_async(const_cast<std::uint16_t*>(to), from, static_cast<std::size_t>(count) * 2,
                      stream);
  };
  PLE_TRY(copy(out.vectors.norm_key, args.vectors.norm_key, channels));
  PLE_TRY(copy(out.vectors.norm_query, args.vectors.norm_query, channels));
  PLE_TRY(copy(out.vectors.norm_conv, args.vectors.norm_conv, channels));
  PLE_TRY(copy(out.vectors.conv, args.vectors.conv, channels * args.shape.tap_count));
  if (args.vectors.key_bias != nullptr) {
    PLE_TRY(copy(out.vectors.key_bias, args.vectors.key_bias, channels));
    PLE_TRY(copy(out.vectors.value_bias, args.vectors.value_bias, args.shape.hidden));
  }

  PLE_CUDA_TRY(launch(gate_scale_kernel, pack_launch(channels), stream, out.vectors,
                      const_cast<float*>(out.gate_scale), channels));
  return pack_projection(args.shape, StoredProjection{args.shape, args.key, args.value},
                         const_cast<std::uint16_t*>(out.projection), stream);
}

}  // namespace ple::kernels
