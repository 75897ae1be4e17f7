#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "device/cuda_memory.hpp"
#include "device/cuda_stream.hpp"

namespace ple {

// The placement stream of one CUDA device: copies rows out of pinned landing memory into their
// slots. Thread-safe.
class CudaPlacements final : public PlacementSink {
 public:
  static Result<std::unique_ptr<CudaPlacements>> create(std::int32_t device_index);

  Status enqueue(const RowView& view, const std::byte* landing,
                 std::span<const Placement> placements) override PLE_EXCLUDES(mutex_);
  // Makes room, so that enqueue allocates nothing for rows of loads of up to rows_max.
  Status reserve(std::size_t rows_max) PLE_EXCLUDES(mutex_);

  // The stream goes on after what was enqueued by now.
  Status join(cudaStream_t stream) PLE_EXCLUDES(mutex_);
  Status raise_flag(std::uint32_t* flag) PLE_EXCLUDES(mutex_);
  cudaStream_t stream() const { return stream_.get(); }

 private:
  // Where the rows of one load go, read by the device until the event has passed.
  struct List {
    PinnedBuffer slots;
    CudaEvent is_read;
  };
  static constexpr std::size_t kListCount = 8;

  explicit CudaPlacements(std::int32_t device_index) : device_index_(device_index) {}
  Result<List*> next_list(std::size_t rows_max) PLE_REQUIRES(mutex_);

  const std::int32_t device_index_;
  CudaStream stream_;
  Mutex mutex_;
  std::array<List, kListCount> lists_ PLE_GUARDED_BY(mutex_);
  std::size_t turn_ PLE_GUARDED_BY(mutex_) = 0;
  const List* latest_ PLE_GUARDED_BY(mutex_) = nullptr;  // null: everything enqueued has passed
};

}  // namespace ple
