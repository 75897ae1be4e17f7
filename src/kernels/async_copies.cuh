#pragma once

#include <cstdint>

// Copies into shared memory by single threads, which every device since sm_80 has. They are waited
// for in groups, which end in the order they began.

namespace ple::kernels {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// Copies of 4, 8 or 16 bytes.
template <int kBytes>
__device__ inline void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
               : "memory");
}
// The same of 16 bytes that are read once, past the L1.
__device__ inline void copy_async_once(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Ends a group.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but so many groups have arrived.
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace ple::kernels
