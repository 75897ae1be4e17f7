#pragma once

#include <cstddef>
#include <cstdint>

namespace pleiades::cli {

// The made-up contents of a tensor, row by row. A row is a pure function of (stream, its index): it
// takes ceil(row_elements / lanes) counter words, word w of row r being number r * words + w of the
// stream, and element i is lane i mod lanes of word i / lanes, low bits first:
//
//   bf16        4 lanes of 16 bits: bf16(signed lane * 2^-15 * amplitude)
//   f32         4 lanes of 16 bits: signed lane * 2^-15 * amplitude
//   f16         4 lanes of 16 bits: (signed lane >> 5) * 2^-10 * amplitude, a power of two
//   bytes       8 lanes of 8 bits:  the lane
//   e4m3        8 lanes of 8 bits:  e4m3(signed lane * 3.5), so at most 448
//   e8m0        8 lanes of 8 bits:  115 + (lane mod 2): 2^-12 or 2^-11
//   e4m3_scale  8 lanes of 8 bits:  code 0x60 + (lane mod 8): 32 to 60
//   f32_scale   4 lanes of 16 bits: amplitude or half of it
//
// Amplitude has a part in those that name it alone.
struct Noise {
  enum class Format : std::uint8_t { bf16, f32, f16, bytes, e4m3, e8m0, e4m3_scale, f32_scale };

  Format format = Format::bf16;
  std::uint64_t stream = 0;
  float amplitude = 1.0F;
};

std::uint64_t element_bytes(Noise::Format format);
// As safetensors spells it.
const char* dtype_of(Noise::Format format);

// Rows [row_begin, row_begin + row_count) to out [row_count, row_elements].
void write_noise_rows(const Noise& noise, std::uint64_t row_begin, std::uint64_t row_count,
                      std::uint64_t row_elements, std::byte* out);

}  // namespace pleiades::cli
