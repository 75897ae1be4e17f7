#include "base/aligned_buffer.hpp"

#include <sys/mman.h>

#include <utility>

namespace ple {

namespace {
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
}

void AlignedBuffer::Free::operator()(std::byte* data) const { ::munmap(data, mapped_bytes); }

Result<AlignedBuffer> AlignedBuffer::allocate(std::size_t bytes, std::size_t alignment) {
  AlignedBuffer buffer;
  if (bytes == 0) return buffer;
  if (alignment > kPageBytes) {
    return error(StatusCode::invalid_argument, "alignment {} above the page size {}", alignment,
                 kPageBytes);
  }
  const std::size_t mapped_bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  void* data =
      ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped_bytes < bytes || data == MAP_FAILED) {
    return error(StatusCode::out_of_memory, "no memory for a buffer of {} bytes", bytes);
  }
  if (mapped_bytes >= kHugePageBytes) ::madvise(data, mapped_bytes, MADV_HUGEPAGE);
  buffer.data_ = {static_cast<std::byte*>(data), Free{mapped_bytes}};
  buffer.bytes_ = bytes;
  return buffer;
}

}  // namespace ple
