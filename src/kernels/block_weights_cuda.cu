#include "kernels/block_weights_cuda.hpp"

#include "device/cuda_check.hpp"
#include "kernels/device_math.cuh"

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 256;
constexpr int kPiece = 8;  // elements a thread packs
constexpr int kPiecesPerRow = kChunk / kPiece;

__global__ __launch_bounds__(kBlockThreads) void pack_block_kernel(
    const __grid_constant__ PackBlockArgs args) {
  const int chunks = args.tiles.block_chunks();
  const std::int64_t index = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  const std::int64_t tile_row = index / kPiecesPerRow;
  const int row = static_cast<int>(tile_row % kPanelColumns);
  const int panel = static_cast<int>(tile_row / kPanelColumns % args.tiles.panel_count());
  const int chunk = static_cast<int>(tile_row / kPanelColumns / args.tiles.panel_count());
  if (chunk >= chunks) return;

  const int piece = static_cast<int>(index % kPiecesPerRow) ^ (row % 8);
  const int in_16 = row % 16;
  const int column_in_16 = in_16 % 8 / 2 * 4 + in_16 / 8 * 2 + in_16 % 2;
  const int column = panel * kPanelColumns + row / 16 * 16 + column_in_16;
  std::uint16_t* to = args.weights + args.block_index * args.tiles.block_length() + index * kPiece;
  for (int i = 0; i < kPiece; ++i) {
    const int k = chunk * kChunk + piece * kPiece + i;
    const bool is_inside = column < args.tiles.column_count && k < args.element_count;
    to[i] = is_inside ? args.from[column * args.stride + k] : 0;
  }
}

}  // namespace

Status pack_block_cuda(const PackBlockArgs& args, cudaStream_t stream) {
  const std::int64_t pieces = std::int64_t{args.tiles.panel_count()} * args.tiles.block_chunks() *
                              kPanelColumns * kPiecesPerRow;
  const Launch shape{
      .grid = dim3(static_cast<unsigned>((pieces + kBlockThreads - 1) / kBlockThreads)),
      .block_threads = kBlockThreads};
  PLE_CUDA_TRY(launch(pack_block_kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
