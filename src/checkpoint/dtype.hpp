#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ple {

// The element types of safetensors.
enum class DType : std::uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f6_e2m3,
  f6_e3m2,
  f4,
};

// The name in a safetensors header ("BF16"), and back; nothing for a name that is not one.
std::string_view dtype_name(DType dtype);
std::optional<DType> dtype_of(std::string_view name);

std::uint32_t dtype_bits(DType dtype);

}  // namespace ple
