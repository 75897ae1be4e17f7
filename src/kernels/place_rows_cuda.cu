#include "device/cuda_check.hpp"
#include "kernels/device_math.cuh"
#include "kernels/ple_layer_cuda.hpp"

namespace ple::kernels {

namespace {

constexpr int kBlockThreads = 256;

// A thread moves 16 bytes: the rows lie one behind the other, so the reads of a warp do too.
__global__ __launch_bounds__(kBlockThreads) void place_rows_kernel(
    const __grid_constant__ PlaceRowsArgs args) {
  const std::uint32_t vectors_per_row = args.slot_bytes / sizeof(uint4);
  const std::int64_t index = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  const std::int64_t row = index / vectors_per_row;
  if (row >= args.row_count) return;
  const SlotId slot = args.slots[row];
  if (slot == kZeroSlot) return;
  const bool is_in_arena = slot < args.arena_slot_count;
  auto* slots = reinterpret_cast<uint4*>(is_in_arena ? args.arena : args.staging);
  const std::int64_t vector = index - row * vectors_per_row;
  const std::size_t in_slots = slot - (is_in_arena ? 0 : args.arena_slot_count);
  slots[in_slots * vectors_per_row + vector] = reinterpret_cast<const uint4*>(args.rows)[index];
}

}  // namespace

Status place_rows_cuda(const PlaceRowsArgs& args, cudaStream_t stream) {
  if (args.row_count == 0) return {};
  const std::int64_t threads = args.row_count * (args.slot_bytes / 16);
  const auto blocks = static_cast<unsigned>((threads + kBlockThreads - 1) / kBlockThreads);
  const Launch shape{.grid = dim3(blocks), .block_threads = kBlockThreads};
  PLE_CUDA_TRY(launch(place_rows_kernel, shape, stream, args));
  return {};
}

}  // namespace ple::kernels
