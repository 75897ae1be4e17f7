#include "engine/cuda_memory_pool.hpp"

#include <utility>

#include "cache/host_slot_memory.hpp"
#include "device/cuda_device.hpp"

namespace ple {

class CudaMemoryPool::DeviceMemory : public SlotMemory {
 public:
  DeviceMemory(CudaMemoryPool& pool, DeviceBuffer buffer)
      : pool_(pool), buffer_(std::move(buffer)) {}

  std::byte* host_address() override { return nullptr; }
  std::byte* kernel_address() override { return buffer_.data(); }
  std::size_t bytes() const override { return buffer_.bytes(); }
  Status upload(std::size_t offset, std::span<const std::byte> source) override {
    PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(pool_.device_index_));
    PLE_TRY(copy_async(buffer_.data() + offset, source.data(), source.size(), pool_.stream_.get()));
    return pool_.stream_.synchronize();
  }

 protected:
  CudaMemoryPool& pool_;
  DeviceBuffer buffer_;
};

class CudaMemoryPool::StateMemory final : public DeviceMemory {
 public:
  using DeviceMemory::DeviceMemory;
  ~StateMemory() override { pool_.take_back(std::move(buffer_)); }
};

Result<std::unique_ptr<SlotMemory>> CudaMemoryPool::make_device(std::size_t bytes) {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  PLE_TRY_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(bytes));
  return std::unique_ptr<SlotMemory>(std::make_unique<DeviceMemory>(*this, std::move(buffer)));
}

Result<std::unique_ptr<SlotMemory>> CudaMemoryPool::make_pinned(std::size_t bytes) {
  PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
  PLE_TRY_ASSIGN(PinnedBuffer buffer, PinnedBuffer::allocate(bytes));
  return std::unique_ptr<SlotMemory>(
      std::make_unique<HostSlotMemory<PinnedBuffer>>(std::move(buffer)));
}

Result<std::unique_ptr<SlotMemory>> CudaMemoryPool::make_state(std::size_t bytes) {
  DeviceBuffer buffer;
  {
    const MutexLock lock(mutex_);
    Shelf& shelf = shelves_[bytes];
    if (shelf.free.empty()) {
      shelf.free.reserve(++shelf.made_count);
    } else {
      buffer = std::move(shelf.free.back());
      shelf.free.pop_back();
    }
  }
  if (buffer.data() == nullptr) {
    PLE_TRY_ASSIGN(const CudaScope scope, CudaScope::enter(device_index_));
    PLE_TRY_ASSIGN(buffer, DeviceBuffer::allocate(bytes));
  }
  return std::unique_ptr<SlotMemory>(std::make_unique<StateMemory>(*this, std::move(buffer)));
}

void CudaMemoryPool::take_back(DeviceBuffer buffer) {
  const MutexLock lock(mutex_);
  shelves_[buffer.bytes()].free.push_back(std::move(buffer));
}

}  // namespace ple
