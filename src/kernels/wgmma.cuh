#pragma once

#include <cstdint>

#include "kernels/hopper.cuh"

// Hopper's matrix product of a warpgroup. Only code under __CUDA_ARCH_FEAT_SM90_ALL may use it.

namespace ple::kernels {

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
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// The names of so many accumulators, and the accumulators.
#define PLE_SUMS8(i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])
#define PLE_NAMES_4 "%0, %1, %2, %3"
#define PLE_SUMS_4 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define PLE_NAMES_24                                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, " \
  "%20, %21, %22, %23"
#define PLE_SUMS_24 PLE_SUMS8(0), PLE_SUMS8(8), PLE_SUMS8(16)
#define PLE_NAMES_32 PLE_NAMES_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define PLE_SUMS_32 PLE_SUMS_24, PLE_SUMS8(24)
#define PLE_NAMES_48 \
  PLE_NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define PLE_SUMS_48 PLE_SUMS_32, PLE_SUMS8(32), PLE_SUMS8(40)
#define PLE_NAMES_56 PLE_NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define PLE_SUMS_56 PLE_SUMS_48, PLE_SUMS8(48)
#define PLE_NAMES_64 PLE_NAMES_56 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define PLE_SUMS_64 PLE_SUMS_56, PLE_SUMS8(56)
#define PLE_NAMES_80 \
  PLE_NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define PLE_SUMS_80 PLE_SUMS_64, PLE_SUMS8(64), PLE_SUMS8(72)
#define PLE_NAMES_96 \
  PLE_NAMES_80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PLE_SUMS_96 PLE_SUMS_80, PLE_SUMS8(80), PLE_SUMS8(88)
#define PLE_NAMES_104 PLE_NAMES_96 ", %96, %97, %98, %99, %100, %101, %102, %103"
#define PLE_SUMS_104 PLE_SUMS_96, PLE_SUMS8(96)
#define PLE_NAMES_120                                                                      \
  PLE_NAMES_104                                                                            \
  ", %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, " \
  "%118, %119"
#define PLE_SUMS_120 PLE_SUMS_104, PLE_SUMS8(104), PLE_SUMS8(112)
#define PLE_NAMES_128 PLE_NAMES_120 ", %120, %121, %122, %123, %124, %125, %126, %127"
#define PLE_SUMS_128 PLE_SUMS_120, PLE_SUMS8(120)

// d[64, kColumns] = a[64, 16] * b[kColumns, 16] + (is_first ? 0 : d); this thread has kColumns / 2
// accumulators.
template <int kColumns>
__device__ void wgmma(float* d, std::uint64_t a, std::uint64_t b, bool is_first);

// The same with a in registers: of rows r and r + 8 of this lane's 8 by 8 matrices the elements
// k, k + 1, then k + 8, k + 9.
template <int kColumns>
__device__ void wgmma_registers(float* d, const std::uint32_t (&a)[4], std::uint64_t b,
                                bool is_first);

// The instruction of one width; the operands behind the accumulators by their places.
#define PLE_WGMMA(columns, count, a_at, b_at, first_at)                             \
  template <>                                                                       \
  __device__ inline void wgmma<columns>(float* d, std::uint64_t a, std::uint64_t b, \
                                        bool is_first) {                            \
    asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, %" #first_at                     \
                 ", 0;\n"                                                           \
                 "wgmma.mma_async.sync.aligned.m64n" #columns                       \
                 "k16.f32.bf16.bf16 {" PLE_NAMES_##count "}, %" #a_at ", %" #b_at   \
                                                         ", p, 1, 1, 0, 0;\n}\n"    \
                 : PLE_SUMS_##count                                                 \
                 : "l"(a), "l"(b), "r"(static_cast<int>(is_first)));                \
  }

#define PLE_WGMMA_REGISTERS(columns, count, a0, a1, a2, a3, b_at, first_at)                     \
  template <>                                                                                   \
  __device__ inline void wgmma_registers<columns>(float* d, const std::uint32_t(&a)[4],         \
                                                  std::uint64_t b, bool is_first) {             \
    asm volatile(                                                                               \
        "{\n.reg .pred p;\nsetp.eq.b32 p, %" #first_at                                          \
        ", 0;\n"                                                                                \
        "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32.bf16.bf16 {" PLE_NAMES_##count    \
        "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b_at ", p, 1, 1, 0;\n}\n"             \
        : PLE_SUMS_##count                                                                      \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(is_first))); \
  }

PLE_WGMMA(8, 4, 4, 5, 6)
PLE_WGMMA(48, 24, 24, 25, 26)
PLE_WGMMA(64, 32, 32, 33, 34)
PLE_WGMMA(96, 48, 48, 49, 50)
PLE_WGMMA(112, 56, 56, 57, 58)
PLE_WGMMA(128, 64, 64, 65, 66)
PLE_WGMMA(160, 80, 80, 81, 82)
PLE_WGMMA(192, 96, 96, 97, 98)
PLE_WGMMA(208, 104, 104, 105, 106)
PLE_WGMMA(240, 120, 120, 121, 122)

PLE_WGMMA_REGISTERS(8, 4, 4, 5, 6, 7, 8, 9)
PLE_WGMMA_REGISTERS(64, 32, 32, 33, 34, 35, 36, 37)
PLE_WGMMA_REGISTERS(256, 128, 128, 129, 130, 131, 132, 133)

#undef PLE_WGMMA_REGISTERS
#undef PLE_WGMMA
#undef PLE_SUMS8
#undef PLE_NAMES_4
#undef PLE_SUMS_4
#undef PLE_NAMES_24
#undef PLE_SUMS_24
#undef PLE_NAMES_32
#undef PLE_SUMS_32
#undef PLE_NAMES_48
#undef PLE_SUMS_48
#undef PLE_NAMES_56
#undef PLE_SUMS_56
#undef PLE_NAMES_64
#undef PLE_SUMS_64
#undef PLE_NAMES_80
#undef PLE_SUMS_80
#undef PLE_NAMES_96
#undef PLE_SUMS_96
#undef PLE_NAMES_104
#undef PLE_SUMS_104
#undef PLE_NAMES_120
#undef PLE_SUMS_120
#undef PLE_NAMES_128
#undef PLE_SUMS_128

}  // namespace ple::kernels
