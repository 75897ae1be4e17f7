#pragma once

#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/types.hpp"
#include "kernels/device_math.cuh"

// Decoding of table rows to bf16, with the bits of decode_row_cpu.

namespace ple::kernels {

// Where a slot's bytes are; null for kZeroSlot.
__device__ inline const std::byte* slot_row(const RowView& rows, SlotId slot) {
  if (slot == kZeroSlot) return nullptr;
  if (slot < rows.arena_slot_count) return rows.arena + std::size_t{slot} * rows.slot_bytes;
  return rows.staging + std::size_t{slot - rows.arena_slot_count} * rows.slot_bytes;
}

__device__ inline float e4m3_value(std::uint8_t code) {
  const __half_raw half = __nv_cvt_fp8_to_halfraw(code, __NV_E4M3);
  return __half2float(__half(half));
}

__device__ inline float2 e4m3_values(std::uint16_t codes) {
  return __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3)));
}

__device__ inline float e8m0_value(std::uint8_t code) {
  if (code == 0) return __uint_as_float(0x00400000);  // 2^-127
  if (code == 0xFF) return __uint_as_float(0x7FC00000);
  return __uint_as_float(std::uint32_t{code} << 23);
}

__device__ inline float e2m1_value(std::uint32_t code) {
  const std::uint32_t exponent = code >> 1 & 3;
  const float mantissa = static_cast<float>(code & 1);
  const float magnitude = exponent == 0
                              ? mantissa * 0.5F
                              : (1.0F + mantissa * 0.5F) * static_cast<float>(1 << (exponent - 1));
  return (code & 8) != 0 ? -magnitude : magnitude;
}

// A row's f32 scale stands behind dim one-byte codes, at any alignment.
__device__ inline float trailing_scale(const std::uint8_t* row, int dim) {
  std::uint32_t bits = 0;
  for (int byte = 0; byte < 4; ++byte) bits |= std::uint32_t{row[dim + byte]} << (8 * byte);
  return __uint_as_float(bits);
}

inline constexpr int kE8m0BlockLength = 32;

// Element i of a row, in f32 before its rounding to bf16.
__device__ inline float row_element(const RowEncoding& encoding, const std::byte* bytes, int i) {
  constexpr int kNvfp4BlockLength = 16;
  const auto* row = reinterpret_cast<const std::uint8_t*>(bytes);
  const int dim = encoding.dim;
  switch (encoding.format) {
    case RowFormat::bf16:
      return bf16_value(reinterpret_cast<const std::uint16_t*>(row)[i]);
    case RowFormat::f16:
      return __half2float(reinterpret_cast<const __half*>(row)[i]);
    case RowFormat::f32:
      return reinterpret_cast<const float*>(row)[i];
    case RowFormat::fp8_e4m3:
      return e4m3_value(row[i]) * round_bf16(encoding.scale);
    case RowFormat::fp8_e4m3_row:
      return e4m3_value(row[i]) * trailing_scale(row, dim);
    case RowFormat::fp8_e4m3_e8m0:
      return e4m3_value(row[i]) * e8m0_value(row[dim + i / kE8m0BlockLength]);
    case RowFormat::int8_row:
      return static_cast<float>(static_cast<std::int8_t>(row[i])) * trailing_scale(row, dim);
    case RowFormat::nvfp4:
      return e2m1_value(row[i / 2] >> (i % 2 * 4) & 0xF) *
             e4m3_value(row[dim / 2 + i / kNvfp4BlockLength]) * encoding.scale;
  }
  return 0.0F;
}

// Elements i .. i + 7 of a row of a multiple of 8 elements, rounded to bf16.
__device__ inline uint4 row_elements8(const RowEncoding& encoding, const std::byte* row, int i) {
  if (encoding.format == RowFormat::bf16) {
    return *reinterpret_cast<const uint4*>(row + 2 * i);
  }
  const bool has_blocks = encoding.format == RowFormat::fp8_e4m3_e8m0;
  if (has_blocks || encoding.format == RowFormat::fp8_e4m3) {
    const uint2 codes = *reinterpret_cast<const uint2*>(row + i);
    const auto* scales = reinterpret_cast<const std::uint8_t*>(row) + encoding.dim;
    const float scale =
        has_blocks ? e8m0_value(scales[i / kE8m0BlockLength]) : round_bf16(encoding.scale);
    std::uint32_t pairs[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const std::uint32_t word = j < 2 ? codes.x : codes.y;
      const float2 values = e4m3_values(static_cast<std::uint16_t>(word >> (j % 2 * 16)));
      pairs[j] = pack_bf16(values.x * scale, values.y * scale);
    }
    return {pairs[0], pairs[1], pairs[2], pairs[3]};
  }
  std::uint16_t out[8];
#pragma unroll
  for (int j = 0; j < 8; ++j) out[j] = bf16_bits(row_element(encoding, row, i + j));
  return {out[0] | std::uint32_t{out[1]} << 16, out[2] | std::uint32_t{out[3]} << 16,
          out[4] | std::uint32_t{out[5]} << 16, out[6] | std::uint32_t{out[7]} << 16};
}

// Elements i .. i + 7 of any row, zero behind its last one. A call: inlined for several pieces, the
// decoders of all formats would outgrow the instruction cache.
__device__ __noinline__ static uint4 row_elements8_within(RowEncoding encoding,
                                                          const std::byte* row, int i) {
  if (encoding.dim % 8 == 0) return row_elements8(encoding, row, i);
  std::uint16_t out[8] = {};
  for (int j = 0; j < 8 && i + j < encoding.dim; ++j) {
    out[j] = bf16_bits(row_element(encoding, row, i + j));
  }
  return {out[0] | std::uint32_t{out[1]} << 16, out[2] | std::uint32_t{out[3]} << 16,
          out[4] | std::uint32_t{out[5]} << 16, out[6] | std::uint32_t{out[7]} << 16};
}

// Elements i .. i + 7 of several rows, of which null ones and what lies behind the last element are
// zero. Plain bf16 is loaded all at once, so that its latency is paid once.
template <int kCount>
__device__ inline void read_pieces(const RowEncoding& encoding, const std::uint64_t (&rows)[kCount],
                                   int i, uint4 (&to)[kCount]) {
  const bool is_inside = i < encoding.dim;
  if (encoding.format == RowFormat::bf16 && encoding.dim % 8 == 0) {
#pragma unroll
    for (int r = 0; r < kCount; ++r) {
      const auto* row = reinterpret_cast<const std::byte*>(rows[r]);
      to[r] = row != nullptr && is_inside ? *reinterpret_cast<const uint4*>(row + 2 * i) : uint4{};
    }
    return;
  }
#pragma unroll
  for (int r = 0; r < kCount; ++r) {
    const auto* row = reinterpret_cast<const std::byte*>(rows[r]);
    to[r] = row != nullptr && is_inside ? row_elements8_within(encoding, row, i) : uint4{};
  }
}

}  // namespace ple::kernels
