#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_stream.hpp"

namespace ple {

// The memories of an engine on one CUDA device, as slot memory. Thread-safe; outlives what it made.
class CudaMemoryPool {
 public:
  CudaMemoryPool(std::int32_t device_index, const CudaStream& stream)
      : device_index_(device_index), stream_(stream) {}

  // Device memory; and host memory that the device reads in place.
  Result<std::unique_ptr<SlotMemory>> make_device(std::size_t bytes);
  Result<std::unique_ptr<SlotMemory>> make_pinned(std::size_t bytes);

  // Device memory for carried state. It comes back when its sequence goes and is handed out again,
  // so that sequences that come and go never stop the device.
  Result<std::unique_ptr<SlotMemory>> make_state(std::size_t bytes) PLE_EXCLUDES(mutex_);

 private:
  class DeviceMemory;
  class StateMemory;

  // States of one size. There is always room for all that were made, so that one that comes back
  // needs no memory.
  struct Shelf {
    std::size_t made_count = 0;
    std::vector<DeviceBuffer> free;
  };

  void take_back(DeviceBuffer buffer) PLE_EXCLUDES(mutex_);

  const std::int32_t device_index_;
  const CudaStream& stream_;  // for copies
  Mutex mutex_;
  std::map<std::size_t, Shelf> shelves_ PLE_GUARDED_BY(mutex_);  // by bytes
};

}  // namespace ple
