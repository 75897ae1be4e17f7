#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.hpp"
#include "device/cuda_stream.hpp"
#include "engine/backend.hpp"
#include "engine/cuda_placements.hpp"

namespace ple {

// One event for each stream that a step used, and for each of its captured runs.
class CudaFence final : public Fence {
 public:
  static Result<std::unique_ptr<Fence>> create(std::int32_t device_index,
                                               const CudaPlacements& placements);

  Status reserve(void* stream) override { return mark_of(stream).status(); }
  Status record(void* stream) override;
  Status record_placements() override { return record(placements_.stream()); }
  Status capture(std::size_t run_index, void* stream) override;
  Result<bool> is_passed() override;
  Status wait() override;
  void clear() override;

 private:
  struct Mark {
    cudaStream_t stream = nullptr;
    CudaEvent event;
    bool is_recorded = false;
  };

  CudaFence(std::int32_t device_index, const CudaPlacements& placements)
      : device_index_(device_index), placements_(placements) {}
  Result<Mark*> mark_of(void* stream);

  const std::int32_t device_index_;
  const CudaPlacements& placements_;
  std::vector<Mark> marks_;  // the first used_count_ have a stream, the very first the placements'
  std::size_t used_count_ = 0;
  std::vector<CudaEvent> captured_runs_;
};

}  // namespace ple
