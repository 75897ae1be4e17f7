#include "device/cuda_check.hpp"
#include "device/cuda_memory.hpp"
#include "kernels/device_math.cuh"
#include "kernels/ple_layer_cuda.hpp"
#include "kernels/ple_tiles.hpp"

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 256;
constexpr int kPiece = 8;  // elements a thread packs
constexpr int kPiecesPerRow = kChunk / kPiece;

__global__ __launch_bounds__(kBlockThreads) void pack_projection_kernel(
    const __grid_constant__ PackPleWeightsArgs args, std::uint16_t* projection) {
  const PleTiles tiles(args.shape);
  const std::int64_t index = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  const std::int64_t tile_row = index / kPiecesPerRow;
  const int row = static_cast<int>(tile_row % kGroupColumns);
  const std::int64_t tile = tile_row / kGroupColumns;
  const int chunk = static_cast<int>(tile % tiles.chunk_count);
  const int group = static_cast<int>(tile / tiles.chunk_count);
  if (group >= tiles.group_count) return;
  const int piece = static_cast<int>(index % kPiecesPerRow) ^ (row % 8);

  const int in_16 = row % 16;
  const int column_in_16 = in_16 % 8 / 2 * 4 + in_16 / 8 * 2 + in_16 % 2;
  const int stream = group / tiles.groups_per_stream;
  const int column = group % tiles.groups_per_stream * kGroupColumns + row / 16 * 16 + column_in_16;
  const bool is_value = stream == args.shape.stream_count;
  const std::uint16_t* from = is_value ? args.value : args.key;
  const std::int64_t from_row =
      is_value ? column : std::int64_t{stream} * args.shape.hidden + column;
  for (int i = 0; i < kPiece; ++i) {
    const int k = chunk * kChunk + piece * kPiece + i;
    const bool is_inside = column < args.shape.hidden && k < args.shape.embed_dim;
    projection[index * kPiece + i] = is_inside ? from[from_row * args.shape.embed_dim + k] : 0;
  }
}

__global__ __launch_bounds__(kBlockThreads) void gate_scale_kernel(PleVectors vectors, float* out,
                                                                   std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (i >= count) return;
  out[i] = (1.0F + bf16_value(vectors.norm_key[i])) * (1.0F + bf16_value(vectors.norm_query[i]));
}

unsigned block_count(std::int64_t threads) {
  return static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
}

}  // namespace

Status pack_ple_weights_cuda(const PackPleWeightsArgs& args, cudaStream_t stream) {
  PLE_TRY(check_ple_shape_cuda(args.shape));
  const PleTiles tiles(args.shape);
  const PleWeightsCuda out = PleWeightsCuda::view(args.memory, args.shape);
  const std::int64_t channels = std::int64_t{args.shape.stream_count} * args.shape.hidden;
  const auto copy = [&](const std::uint16_t* to, const std::uint16_t* from, std::int64_t count) {
    return copy_async(const_cast<std::uint16_t*>(to), from, static_cast<std::size_t>(count) * 2,
                      stream);
  };
  PLE_TRY(copy(out.vectors.norm_key, args.vectors.norm_key, channels));
  PLE_TRY(copy(out.vectors.norm_query, args.vectors.norm_query, channels));
  PLE_TRY(copy(out.vectors.norm_conv, args.vectors.norm_conv, channels));
  PLE_TRY(copy(out.vectors.conv, args.vectors.conv, channels * args.shape.tap_count));

  const Launch scale{.grid = dim3(block_count(channels)), .block_threads = kBlockThreads};
  PLE_CUDA_TRY(launch(gate_scale_kernel, scale, stream, out.vectors,
                      const_cast<float*>(out.gate_scale), channels));
  const auto pieces = static_cast<std::int64_t>(tiles.projection_bytes()) / (2 * kPiece);
  const Launch pack{.grid = dim3(block_count(pieces)), .block_threads = kBlockThreads};
  PLE_CUDA_TRY(launch(pack_projection_kernel, pack, stream, args,
                      const_cast<std::uint16_t*>(out.projection)));
  return {};
}

}  // namespace ple::kernels
