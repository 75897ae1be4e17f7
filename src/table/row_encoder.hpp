#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/row_view.hpp"

namespace ple {

// The opposite of decoding (kernels/gather_rows.hpp): bf16 values to the bytes of a row. Values go
// to the nearest code, ties to even, and saturate. The scales follow from the values alone:
//
//   fp8_e4m3_row   largest magnitude of the row / 448
//   int8_row       largest magnitude of the row / 127
//   nvfp4          of a block: the nearest E4M3 to its largest magnitude / 6 / the table's scale
//
// A row of zeros has the scale 1. Divisions are those of f32.

// Whether encode_row writes this format.
bool can_encode(RowFormat format);

// values: [encoding.dim], finite. out: [encoding.row_bytes].
void encode_row(const RowEncoding& encoding, const std::uint16_t* values, std::byte* out);

// The largest magnitude of bf16 values, as bf16 bits; 0x7F80 and above: one of them is not finite.
std::uint16_t largest_magnitude(std::span<const std::uint16_t> values);

// RowEncoding::scale of an nvfp4 table whose largest magnitude is this.
float nvfp4_table_scale(float largest);

}  // namespace ple
