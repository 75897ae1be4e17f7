#pragma once

#include <cstdint>

// Hopper's asynchronous instructions: barriers in shared memory, bulk copies into it, and the
// matrix product of a warpgroup. Only code under __CUDA_ARCH_FEAT_SM90_ALL may use them.

namespace ple::kernels {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

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
__device__ inline std::uint32_t load_shared4(std::uint32_t from) {
  std::uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(from));
  return value;
}

// Copies of 4, 8 or 16 bytes by single threads, in groups that end in the order they began.
template <int kBytes>
__device__ inline void copy_async(std::uint32_t to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(kBytes)
               : "memory");
}
__device__ inline void copies_end() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// All but so many groups have arrived.
template <int kPending>
__device__ inline void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

__device__ inline void barrier_init(std::uint64_t* barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
               "r"(arrivals)
               : "memory");
}
__device__ inline void barrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier))
               : "memory");
}
// The barrier's phase also waits for so many bytes of bulk copies.
__device__ inline void barrier_expect(std::uint64_t* barrier, std::uint32_t bytes) {
  asm volatile(
      "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)),
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

// A K-major operand in 128-byte swizzle: rows of 128 bytes, eight rows after 1024 bytes.
// begin: of operand_begin, for a loop that goes on from it.
__device__ inline std::uint32_t operand_begin(std::uint32_t tile) {
  return (tile >> 4 & 0x3FFF) | 1U << 16;
}
__device__ inline std::uint64_t operand_at(std::uint32_t begin) {
  constexpr std::uint64_t kStride = 1024 >> 4;
  constexpr std::uint64_t kSwizzle128 = 1;
  return begin | kStride << 32 | kSwizzle128 << 62;
}
__device__ inline std::uint64_t operand(const void* tile) {
  return operand_at(operand_begin(shared_address(tile)));
}
// The operand 16 elements of the inner dimension on.
inline constexpr std::uint32_t kOperandStep = 32 >> 4;

__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// So many threads of the block meet; barrier: not 0, which is __syncthreads.
template <int kThreads>
__device__ inline void meet(int barrier) {
  asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(kThreads) : "memory");
}
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

#define PLE_D8(i)                                                                             \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

// d[64, 48] = a[64, 16] * b[48, 16] + (is_first ? 0 : d); this thread's 24 accumulators.
__device__ inline void wgmma_n48(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %26, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23"
      "}, %24, %25, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 96] = a[64, 16] * b[96, 16] + (is_first ? 0 : d); this thread's 48 accumulators.
__device__ inline void wgmma_n96(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %50, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
      "}, %48, %49, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 112] = a[64, 16] * b[112, 16] + (is_first ? 0 : d); this thread's 56 accumulators.
__device__ inline void wgmma_n112(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %58, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55"
      "}, %56, %57, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 128] = a[64, 16] * b[128, 16] + (is_first ? 0 : d); this thread's 64 accumulators.
__device__ inline void wgmma_n128(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, "
      "%18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, "
      "%34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, "
      "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48), PLE_D8(56)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 160] = a[64, 16] * b[160, 16] + (is_first ? 0 : d); this thread's 80 accumulators.
__device__ inline void wgmma_n160(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %82, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n160k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
      "}, %80, %81, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48),
        PLE_D8(56), PLE_D8(64), PLE_D8(72)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 192] = a[64, 16] * b[192, 16] + (is_first ? 0 : d); this thread's 96 accumulators.
__device__ inline void wgmma_n192(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %98, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95"
      "}, %96, %97, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48),
        PLE_D8(56), PLE_D8(64), PLE_D8(72), PLE_D8(80), PLE_D8(88)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 208] = a[64, 16] * b[208, 16] + (is_first ? 0 : d); this thread's 104 accumulators.
__device__ inline void wgmma_n208(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %106, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n208k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103"
      "}, %104, %105, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48),
        PLE_D8(56), PLE_D8(64), PLE_D8(72), PLE_D8(80), PLE_D8(88), PLE_D8(96)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, 240] = a[64, 16] * b[240, 16] + (is_first ? 0 : d); this thread's 120 accumulators.
__device__ inline void wgmma_n240(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %122, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n240k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "
      "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
      "%117, %118, %119"
      "}, %120, %121, p, 1, 1, 0, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48),
        PLE_D8(56), PLE_D8(64), PLE_D8(72), PLE_D8(80), PLE_D8(88), PLE_D8(96), PLE_D8(104),
        PLE_D8(112)
      : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));
}

// d[64, kColumns] = a[64, 16] * b[kColumns, 16] + (is_first ? 0 : d), with a in registers: of rows
// r and r + 8 of this lane's 8 by 8 matrices elements k, k + 1, then those of k + 8, k + 9.
__device__ inline void wgmma_registers_n8(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                          bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %9, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3"
      "}, {%4, %5, %6, %7}, %8, p, 1, 1, 0;\n}\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(is_first)));
}

__device__ inline void wgmma_registers_n64(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                           bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %37, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, {%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(is_first)));
}

__device__ inline void wgmma_registers_n256(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                            bool is_first) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.eq.b32 p, %133, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, "
      "%19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
      "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, "
      "%53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "
      "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, %84, %85, %86, "
      "%87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, "
      "%103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, "
      "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, {%128, %129, %130, %131}, %132, p, 1, 1, 0;\n}\n"
      : PLE_D8(0), PLE_D8(8), PLE_D8(16), PLE_D8(24), PLE_D8(32), PLE_D8(40), PLE_D8(48),
        PLE_D8(56), PLE_D8(64), PLE_D8(72), PLE_D8(80), PLE_D8(88), PLE_D8(96), PLE_D8(104),
        PLE_D8(112), PLE_D8(120)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(is_first)));
}

#undef PLE_D8

// d[64, kColumns], by the instruction of that width.
template <int kColumns>
__device__ inline void wgmma(float* d, std::uint64_t a, std::uint64_t b, bool is_first) {
  static_assert(kColumns == 48 || kColumns == 96 || kColumns == 112 || kColumns == 128 ||
                kColumns == 160 || kColumns == 192 || kColumns == 208 || kColumns == 240);
  if constexpr (kColumns == 48) wgmma_n48(d, a, b, is_first);
  if constexpr (kColumns == 96) wgmma_n96(d, a, b, is_first);
  if constexpr (kColumns == 112) wgmma_n112(d, a, b, is_first);
  if constexpr (kColumns == 128) wgmma_n128(d, a, b, is_first);
  if constexpr (kColumns == 160) wgmma_n160(d, a, b, is_first);
  if constexpr (kColumns == 192) wgmma_n192(d, a, b, is_first);
  if constexpr (kColumns == 208) wgmma_n208(d, a, b, is_first);
  if constexpr (kColumns == 240) wgmma_n240(d, a, b, is_first);
}

template <int kColumns>
__device__ inline void wgmma_registers(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                       bool is_first) {
  static_assert(kColumns == 8 || kColumns == 64 || kColumns == 256);
  if constexpr (kColumns == 8) wgmma_registers_n8(d, a, b, is_first);
  if constexpr (kColumns == 64) wgmma_registers_n64(d, a, b, is_first);
  if constexpr (kColumns == 256) wgmma_registers_n256(d, a, b, is_first);
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
