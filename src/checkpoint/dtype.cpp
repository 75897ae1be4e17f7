#include "checkpoint/dtype.hpp"

#include <array>
#include <cstddef>

namespace ple {
namespace {

struct Entry {
  std::string_view name;
  std::uint32_t bits;
};

// In the order of DType.
constexpr std::array<Entry, 20> kEntries = {{
    {"BOOL", 8},    {"U8", 8},      {"I8", 8},      {"U16", 16},    {"I16", 16},
    {"U32", 32},    {"I32", 32},    {"U64", 64},    {"I64", 64},    {"F16", 16},
    {"BF16", 16},   {"F32", 32},    {"F64", 64},    {"C64", 64},    {"F8_E4M3", 8},
    {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
}};
static_assert(static_cast<std::size_t>(DType::f4) + 1 == kEntries.size());

}  // namespace

std::string_view dtype_name(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].name; }

std::uint32_t dtype_bits(DType dtype) { return kEntries[static_cast<std::size_t>(dtype)].bits; }

std::optional<DType> dtype_of(std::string_view name) {
  for (std::size_t index = 0; index < kEntries.size(); ++index) {
    if (kEntries[index].name == name) return static_cast<DType>(index);
  }
  return std::nullopt;
}

}  // namespace ple
