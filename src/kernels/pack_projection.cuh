#pragma once

#include "device/cuda_check.hpp"
#include "kernels/device_math.cuh"
#include "kernels/ple_tiles.hpp"

// Brings a layer's matrices into the tiles of ple_tiles.hpp.

namespace ple::kernels {

inline constexpr int kPackThreads = 256;

inline Launch pack_launch(std::int64_t threads) {
  return {.grid = dim3(static_cast<unsigned>((threads + kPackThreads - 1) / kPackThreads)),
          .block_threads = kPackThreads};
}

// source.at(stream, column, k): bf16 bits of an element of a stream's keys, or, behind the last
// stream, of the values.
template <class Source>
__global__ __launch_bounds__(kPackThreads) void pack_projection_kernel(PleShape shape,
                                                                       Source source,
                                                                       std::uint16_t* projection) {
  constexpr int kPiece = 8;  // elements a thread packs
  constexpr int kPiecesPerRow = kChunk / kPiece;
  const PleTiles tiles(shape);
  const std::int64_t index = std::int64_t{blockIdx.x} * kPackThreads + threadIdx.x;
  const std::int64_t tile_row = index / kPiecesPerRow;
  const int row = static_cast<int>(tile_row % kGroupColumns);
  const std::int64_t tile = tile_row / kGroupColumns;
  const int group = static_cast<int>(tile % tiles.group_count);
  const int chunk = static_cast<int>(tile / tiles.group_count);
  if (chunk >= tiles.chunk_count) return;
  const int piece = static_cast<int>(index % kPiecesPerRow) ^ (row % 8);

  const int in_16 = row % 16;
  const int column_in_16 = in_16 % 8 / 2 * 4 + in_16 / 8 * 2 + in_16 % 2;
  const int stream = group / tiles.groups_per_stream;
  const int column = group % tiles.groups_per_stream * kGroupColumns + row / 16 * 16 + column_in_16;
  for (int i = 0; i < kPiece; ++i) {
    const int k = chunk * kChunk + piece * kPiece + i;
    const bool is_inside = column < shape.hidden && k < shape.embed_dim;
    projection[index * kPiece + i] = is_inside ? source.at(stream, column, k) : std::uint16_t{0};
  }
}

template <class Source>
Status pack_projection(const PleShape& shape, const Source& source, std::uint16_t* projection,
                       cudaStream_t stream) {
  const auto pieces = static_cast<std::int64_t>(PleTiles(shape).projection_bytes()) / 16;
  PLE_CUDA_TRY(launch(pack_projection_kernel<Source>, pack_launch(pieces), stream, shape, source,
                      projection));
  return {};
}

}  // namespace ple::kernels
