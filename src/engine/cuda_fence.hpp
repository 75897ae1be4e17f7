#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "device/cuda_stream.hpp"
#include "engine/backend.hpp"
#include "engine/cuda_placements.hpp"

namespace ple {

// One event for each stream that a step used.
class CudaFence final : public Fence {
 public:
  CudaFence(std::int32_t device_index, const CudaPlacements& placements)
      : device_index_(device_index), placements_(placements) {}

  Status record(void* stream) override;
  Status record_placements() override { return record(placements_.stream()); }
  Result<bool> is_passed() override;
  Status wait() override;
  void clear() override { recorded_count_ = 0; }

 private:
  struct Mark {
    cudaStream_t stream = nullptr;
    CudaEvent event;
  };

  const std::int32_t device_index_;
  const CudaPlacements& placements_;
  std::vector<Mark> marks_;  // the first recorded_count_ are of this step
  std::size_t recorded_count_ = 0;
};

}  // namespace ple
