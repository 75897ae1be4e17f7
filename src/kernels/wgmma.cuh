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

}  // namespace ple::kernels
