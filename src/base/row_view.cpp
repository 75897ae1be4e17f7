#include "base/row_view.hpp"

namespace ple {

std::int32_t encoded_row_bytes(RowFormat format, std::int32_t dim) {
  if (dim <= 0) return 0;
  switch (format) {
    case RowFormat::bf16:
    case RowFormat::f16:
      return dim * 2;
    case RowFormat::f32:
      return dim * 4;
    case RowFormat::fp8_e4m3:
      return dim;
    case RowFormat::fp8_e4m3_row:
    case RowFormat::int8_row:
      return dim + 4;
    case RowFormat::fp8_e4m3_e8m0:
      return dim % 32 == 0 ? dim + dim / 32 : 0;
    case RowFormat::nvfp4:
      return dim % 16 == 0 ? dim / 2 + dim / 16 : 0;
  }
  return 0;
}

std::string_view row_format_name(RowFormat format) {
  switch (format) {
    case RowFormat::bf16:
      return "bf16";
    case RowFormat::f16:
      return "f16";
    case RowFormat::f32:
      return "f32";
    case RowFormat::fp8_e4m3:
      return "fp8_e4m3";
    case RowFormat::fp8_e4m3_row:
      return "fp8_e4m3_row";
    case RowFormat::fp8_e4m3_e8m0:
      return "fp8_e4m3_e8m0";
    case RowFormat::int8_row:
      return "int8_row";
    case RowFormat::nvfp4:
      return "nvfp4";
  }
  return "unknown";
}

bool has_row_scales(RowFormat format) {
  return format == RowFormat::fp8_e4m3_row || format == RowFormat::fp8_e4m3_e8m0 ||
         format == RowFormat::int8_row || format == RowFormat::nvfp4;
}

}  // namespace ple
