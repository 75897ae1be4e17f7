#include "cache/host_slot_memory.hpp"

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace ple {

Result<std::unique_ptr<SlotMemory>> make_host_slot_memory(std::size_t bytes) {
  PLE_TRY_ASSIGN(AlignedBuffer buffer, AlignedBuffer::allocate(bytes));
  return std::unique_ptr<SlotMemory>(
      std::make_unique<HostSlotMemory<AlignedBuffer>>(std::move(buffer)));
}

}  // namespace ple
