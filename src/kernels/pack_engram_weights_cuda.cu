#include "kernels/e4m3_codes.cuh"
#include "kernels/e4m3_tiles.hpp"
#include "kernels/engram_stages_cuda.hpp"
#include "kernels/pack_projection.cuh"
#include "kernels/row_decode.cuh"

namespace ple::kernels {

namespace {

// The layer's matrix as a checkpoint stores it.
struct StoredCodes {
  PleShape shape;
  const std::uint8_t* codes;
  const std::uint8_t* scales;

  __device__ std::int64_t row(int stream, int column) const {
    return std::int64_t{stream} * shape.hidden + column;
  }
  __device__ std::uint8_t code(int stream, int column, int k) const {
    return codes[row(stream, column) * shape.embed_dim + k];
  }
  __device__ std::uint8_t scale(int stream, int column, int k) const {
    return scales[row(stream, column) / kE4m3Block * (shape.embed_dim / kE4m3Block) +
                  k / kE4m3Block];
  }
  __device__ std::uint16_t at(int stream, int column, int k) const {
    return bf16_bits(e4m3_value(code(stream, column, k)) * e8m0_value(scale(stream, column, k)));
  }
};

// A thread packs one lane's vector of one half of a slice.
__global__ __launch_bounds__(kPackThreads) void pack_e4m3_kernel(StoredCodes source,
                                                                 std::byte* codes,
                                                                 std::uint32_t* factors) {
  const PleShape& shape = source.shape;
  const PleTiles tiles(shape);
  const std::int64_t index = std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  const int lane = static_cast<int>(index % kWarpThreads);
  const int half = static_cast<int>(index / kWarpThreads % kBlocksPerChunk);
  const std::int64_t slice_of_chunk = index / (kWarpThreads * kBlocksPerChunk);
  const int in_group = static_cast<int>(slice_of_chunk % kGroupSlices);
  const std::int64_t tile = slice_of_chunk / kGroupSlices;
  const int group = static_cast<int>(tile % tiles.group_count);
  const int chunk = static_cast<int>(tile / tiles.group_count);
  if (chunk >= tiles.chunk_count) return;

  const int stream = group / tiles.groups_per_stream;
  const int first_column =
      group % tiles.groups_per_stream * kGroupColumns + in_group * kSliceColumns;
  const int first_k = chunk * kChunk + half * kE4m3Block;
  const bool is_inside = first_column < shape.hidden && first_k < shape.embed_dim;
  const int row = lane / 4;
  const int pair = lane % 4 * 2;
  std::uint32_t words[4] = {};
  for (int word = 0; is_inside && word < 4; ++word) {
    for (int i = 0; i < 2; ++i) {
      const int k = first_k + word * 8 + pair + i;
      words[word] |= packed_half(source.code(stream, first_column + row, k),
                                 source.code(stream, first_column + row + 8, k))
                     << (16 * i);
    }
  }
  std::byte* const slice = codes + slice_of_chunk * kE4m3SliceBytes;
  reinterpret_cast<uint4*>(slice + half * kE4m3HalfBytes)[lane] = {words[0], words[1], words[2],
                                                                   words[3]};
  if (lane != 0) return;
  const std::int64_t word = (group * kGroupSlices + in_group) * e4m3_factor_chunks(tiles) + chunk;
  reinterpret_cast<std::uint16_t*>(factors + word)[half] = static_cast<std::uint16_t>(
      is_inside ? factor_of_scale(source.scale(stream, first_column, first_k)) : 0);
}

__global__ __launch_bounds__(kPackThreads) void engram_gate_scale_kernel(
    const std::uint16_t* query_weight, const std::uint16_t* key_weight, float* out,
    std::int64_t count) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  if (i < count) out[i] = bf16_value(query_weight[i]) * bf16_value(key_weight[i]);
}

}  // namespace

Status pack_engram_weights_cuda(const PackEngramWeightsArgs& args, cudaStream_t stream) {
  PLE_TRY(check_engram_shape_cuda(args.shape));
  const PleShape shape = product_shape(args.shape);
  const EngramWeightsCuda out = EngramWeightsCuda::view(args.memory, args.shape, args.form);
  const std::int64_t channels = std::int64_t{shape.stream_count} * shape.hidden;
  PLE_CUDA_TRY(launch(engram_gate_scale_kernel, pack_launch(channels), stream, args.query_weight,
                      args.key_weight, const_cast<float*>(out.gate_scale), channels));
  const StoredCodes source{shape, args.codes, args.scales};
  if (args.form == EngramWeightForm::bf16) {
    return pack_projection(shape, source, const_cast<std::uint16_t*>(out.projection), stream);
  }
  const PleTiles tiles(shape);
  const std::int64_t vectors = std::int64_t{tiles.group_count} * tiles.chunk_count * kGroupSlices *
                               kBlocksPerChunk * kWarpThreads;
  PLE_CUDA_TRY(launch(pack_e4m3_kernel, pack_launch(vectors), stream, source,
                      const_cast<std::byte*>(out.codes), const_cast<std::uint32_t*>(out.factors)));
  return {};
}

}  // namespace ple::kernels
