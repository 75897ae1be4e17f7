#pragma once

#include <cstdint>

#include "kernels/async_copies.cuh"

// Hopper's asynchronous instructions: barriers in shared memory, and bulk copies into it. Only code
// under __CUDA_ARCH_FEAT_SM90_ALL may use them.

namespace ple::kernels {

// Not to be derived anew from what it was derived from.
__device__ inline std::uint32_t kept(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ inline uint4 load_shared16(std::uint32_t from) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(from));
  return value;
}
__device__ inline uint2 load_shared8(std::uint32_t from) {
  uint2 value;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(from));
  return value;
}

__device__ inline void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  barrier_arrive(shared_address(barrier));
}
// The barrier's phase also waits for so many bytes of bulk copies.
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Both at once.
__device__ inline void barrier_arrive_expecting(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
      "r"(bytes)
      : "memory");
}
// Takes a shared address: one that a loop keeps is not derived from a pointer anew in every turn.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n.reg .pred done;\n"
      "WAIT_%=:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@done bra DONE_%=;\n"
      "bra WAIT_%=;\n"
      "DONE_%=:\n}\n" ::"r"(barrier),
      "r"(parity)
      : "memory");
}
__device__ inline void barrier_wait(std::uint64_t* barrier, std::uint32_t parity) {
  barrier_wait(shared_address(barrier), parity);
}

// Copies bytes (a multiple of 16) into shared memory and counts them on the barrier.
__device__ inline void bulk_copy(void* to, const void* from, std::uint32_t bytes,
                                 std::uint64_t* barrier) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
          "r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// The same of bytes that are read once: they leave the L2 before all others.
__device__ inline void bulk_copy_once(void* to, const void* from, std::uint32_t bytes,
                                      std::uint64_t* barrier) {
  asm volatile(
      "{\n.reg .b64 once;\n"
      "createpolicy.fractional.L2::evict_first.b64 once;\n"
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1], %2, [%3], once;\n}\n" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier))
      : "memory");
}

// The blocks of a cluster: the rank of this one; a barrier of all their threads.
__device__ inline int cluster_rank() {
  std::uint32_t rank = 0;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive;\nbarrier.cluster.wait;" ::: "memory");
}
// The same by whole warps, where no memory has to be seen.
__device__ inline void cluster_meet() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;\nbarrier.cluster.wait.aligned;" ::
                   : "memory");
}
// The two halves of cluster_sync.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }
// Where the same place is in another block of the cluster.
__device__ inline std::uint32_t address_in(int rank, const void* shared) {
  std::uint32_t remote = 0;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(remote)
               : "r"(shared_address(shared)), "r"(rank));
  return remote;
}
// Sends four floats to the same place in a block and counts their bytes on its barrier.
__device__ inline void send4(float* to, int rank, float4 value, std::uint64_t* barrier) {
  asm volatile(
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(address_in(rank, to)),
      "f"(value.x), "f"(value.y), "f"(value.z), "f"(value.w), "r"(address_in(rank, barrier))
      : "memory");
}
// Arrives on the barrier at the same place in every block.
template <int kBlocks>
__device__ inline void barrier_arrive_all(std::uint32_t barrier) {
#pragma unroll
  for (int rank = 0; rank < kBlocks; ++rank) {
    asm volatile(
        "{\n.reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
        "r"(rank)
        : "memory");
  }
}
template <int kBlocks>
__device__ inline void barrier_arrive_all(std::uint64_t* barrier) {
  barrier_arrive_all<kBlocks>(shared_address(barrier));
}
// The copy arrives at the same place in every block, and is counted on the barrier of each.
template <int kBlocks>
__device__ inline void bulk_copy_all(void* to, const void* from, std::uint32_t bytes,
                                     std::uint64_t* barrier) {
  constexpr std::uint16_t kAll = (1 << kBlocks) - 1;
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], "
      "[%1], %2, [%3], %4;" ::"r"(shared_address(to)),
      "l"(from), "r"(bytes), "r"(shared_address(barrier)), "h"(kAll)
      : "memory");
}

// What this thread wrote into shared memory is seen by the matrix product and by bulk copies of
// whoever meets it at the next barrier.
__device__ inline void publish_to_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// So many threads of the block meet; barrier: not 0, which is __syncthreads.
template <int kThreads>
__device__ inline void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

// Arrives where others meet.
template <int kThreads>
__device__ inline void arrive(int barrier) {
  asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace ple::kernels
