#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "device/cuda_device.hpp"
#include "device/cuda_stream.hpp"
#include "engine/backend.hpp"
#include "engine/cuda_memory_pool.hpp"
#include "engine/cuda_placements.hpp"

namespace ple {

// One CUDA device as an engine uses it: its streams, its memories, what steps need of it.
class AsyncCuda final : public AsyncDevice {
 public:
  static Result<std::unique_ptr<AsyncCuda>> open(std::int32_t device_index);

  const CudaTraits& traits() const { return traits_; }
  CudaMemoryPool& memory() { return memory_; }
  // For the engine's own work beside any step: weights, snapshots.
  const CudaStream& own_stream() const { return own_stream_; }
  Result<CudaScope> enter() const { return CudaScope::enter(traits_.device_index); }

  // Whether the kernels can use the address; false: pageable host memory. Refuses another device's.
  Result<bool> is_device_address(const void* address) const;

  Result<std::unique_ptr<Fence>> make_fence() override;
  Result<bool> is_capturing(void* stream) override;
  PlacementSink& placements() override { return *placements_; }
  Status reserve_placements(std::size_t rows_max) override {
    return placements_->reserve(rows_max);
  }
  Status join_placements(void* stream) override {
    return placements_->join(static_cast<cudaStream_t>(stream));
  }
  bool has_graph_wait() const override { return has_graph_wait_; }
  Result<std::unique_ptr<SlotMemory>> make_flag() override;
  Status wait_for_flag(SlotMemory& flag, void* stream) override;
  Status raise_flag(SlotMemory& flag) override;
  void lower_flag(SlotMemory& flag) override;
  Status read_tokens(const TokenId* tokens, std::span<TokenId> out, void* stream) override;
  Status read_slots(const RowView& view, std::span<const SlotId> slots, std::byte* out) override;
  Status wait_for_all() override;

 private:
  explicit AsyncCuda(CudaTraits traits)
      : traits_(std::move(traits)), memory_(traits_.device_index, own_stream_) {}

  // Launches a captured wait before its flag is raised, as a step may; false when it does not end.
  Result<bool> probe_graph_wait();

  CudaTraits traits_;
  CudaStream own_stream_;
  CudaMemoryPool memory_;
  std::unique_ptr<CudaPlacements> placements_;
  bool has_graph_wait_ = false;
};

}  // namespace ple
