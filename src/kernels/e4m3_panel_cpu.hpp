#pragma once

#include <cstdint>

// Weights that a PackedMatrix holds as E4M3 codes with an E8M0 scale for each block of 32 rows and
// 32 elements, the form of the checkpoint: half the bytes of bf16, which they are decoded to on the
// way into the product.

namespace ple::kernels {

inline constexpr std::int32_t kScaleBlock = 32;

struct E4m3Panel {
  const std::uint8_t* codes = nullptr;   // [pairs of elements, 64 rows, 2]
  const std::uint8_t* scales = nullptr;  // [blocks of elements, 2 blocks of rows]
};

// Whether all values of a code with this scale are normal bf16 numbers or zero, as decoding wants.
constexpr bool is_plain_e4m3(std::uint8_t code) { return (code & 0x7F) != 0x7F; }
constexpr bool is_plain_scale(std::uint8_t scale) { return scale >= 10 && scale <= 246; }

// Decodes 32 rows by 32 elements of one scale: codes and out [16 pairs, 64 rows, 2], half of them.
using DecodeE4m3Block = void (*)(const std::uint8_t* codes, std::uint8_t scale, std::uint16_t* out);

void decode_e4m3_block(const std::uint8_t* codes, std::uint8_t scale, std::uint16_t* out);

// The same by the processor's lookup in 128 bytes; null where there is none.
DecodeE4m3Block decode_e4m3_block_avx512vbmi();

}  // namespace ple::kernels
