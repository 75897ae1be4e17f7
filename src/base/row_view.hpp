#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/types.hpp"

namespace ple {

// How a row's elements are stored in a table.
enum class RowFormat : std::int32_t {
  bf16 = 0,
  f16 = 1,
  f32 = 2,
  fp8_e4m3 = 3,       // one scale for the table
  fp8_e4m3_row = 4,   // one f32 scale per row, behind the codes
  fp8_e4m3_e8m0 = 5,  // one E8M0 byte per 32 elements, behind the codes
  int8_row = 6,       // one f32 scale per row, behind the codes
  nvfp4 = 7,          // E2M1 codes two to a byte, low nibble first, then one E4M3 scale per 16
                      // elements; one f32 scale for the table
};

// The name of a format, as it is spelled above.
std::string_view row_format_name(RowFormat format);

// Whether scales lie behind the codes of every row.
bool has_row_scales(RowFormat format);

// Everything a kernel needs to turn a slot's bytes into dim bf16 values. Decoding yields bf16 in
// every format, so one product kernel serves all of them.
struct RowEncoding {
  RowFormat format = RowFormat::bf16;
  std::int32_t dim = 0;        // elements of a row
  std::int32_t row_bytes = 0;  // bytes of a row: codes, then its scales
  float scale = 1.0F;          // of the table, where the format has one
};

// Bytes of one row of dim elements, scales included; 0 if the format cannot have that dim.
std::int32_t encoded_row_bytes(RowFormat format, std::int32_t dim);

// Where the rows of a step lie. Slot s is at arena + s * slot_bytes for s < arena_slot_count, else
// at staging + (s - arena_slot_count) * slot_bytes; kZeroSlot is a row of zeros. Pointers are those
// of the device that runs the kernels. slot_bytes is a multiple of 16 and at least row_bytes.
struct RowView {
  const std::byte* arena = nullptr;
  const std::byte* staging = nullptr;
  std::uint32_t arena_slot_count = 0;
  std::uint32_t slot_bytes = 0;
  RowEncoding encoding;
};

}  // namespace ple
