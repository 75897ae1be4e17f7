#pragma once

#include <pleiades/pleiades.hpp>

#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace pleiades::python {

// The words of the package for the enumerators of pleiades.h.
template <class Enum, std::size_t kCount>
using Names = std::array<std::pair<std::string_view, Enum>, kCount>;

inline constexpr Names<ple_arithmetic, 4> kArithmeticNames = {
    {{"auto", PLE_ARITHMETIC_AUTO},
     {"float32", PLE_ARITHMETIC_FLOAT32},
     {"mixed", PLE_ARITHMETIC_MIXED},
     {"reference", PLE_ARITHMETIC_REFERENCE}}};
inline constexpr Names<ple_arena, 3> kArenaNames = {
    {{"auto", PLE_ARENA_AUTO}, {"cached", PLE_ARENA_CACHED}, {"resident", PLE_ARENA_RESIDENT}}};
inline constexpr Names<ple_slot_memory, 3> kSlotMemoryNames = {
    {{"auto", PLE_SLOTS_AUTO}, {"device", PLE_SLOTS_DEVICE}, {"pinned", PLE_SLOTS_PINNED}}};
inline constexpr Names<ple_io, 3> kIoNames = {
    {{"auto", PLE_IO_AUTO}, {"uring", PLE_IO_URING}, {"pread", PLE_IO_PREAD}}};
inline constexpr Names<ple_projection, 3> kProjectionNames = {
    {{"auto", PLE_PROJECTION_AUTO},
     {"fp8", PLE_PROJECTION_FP8},
     {"dequantized", PLE_PROJECTION_DEQUANTIZED}}};
inline constexpr Names<ple_output_mode, 2> kModeNames = {
    {{"update", PLE_OUTPUT_UPDATE}, {"delta", PLE_OUTPUT_DELTA}}};
inline constexpr Names<ple_snapshot_kind, 2> kSnapshotNames = {
    {{"compact", PLE_SNAPSHOT_COMPACT}, {"full", PLE_SNAPSHOT_FULL}}};
inline constexpr Names<ple_pack_format, 4> kPackFormatNames = {{{"bf16", PLE_PACK_BF16},
                                                                {"fp8", PLE_PACK_FP8},
                                                                {"int8", PLE_PACK_INT8},
                                                                {"nvfp4", PLE_PACK_NVFP4}}};
inline constexpr Names<ple_family, 5> kFamilyNames = {{{"qwen4_exp", PLE_FAMILY_QWEN4_EXP},
                                                       {"engram_v41", PLE_FAMILY_ENGRAM_V41},
                                                       {"engram_demo", PLE_FAMILY_ENGRAM_DEMO},
                                                       {"longcat", PLE_FAMILY_LONGCAT},
                                                       {"gemma", PLE_FAMILY_GEMMA}}};
inline constexpr Names<ple_row_format, 8> kRowFormatNames = {
    {{"bf16", PLE_ROW_BF16},
     {"f16", PLE_ROW_F16},
     {"f32", PLE_ROW_F32},
     {"fp8_e4m3", PLE_ROW_FP8_E4M3},
     {"fp8_e4m3_row", PLE_ROW_FP8_E4M3_ROW},
     {"fp8_e4m3_e8m0", PLE_ROW_FP8_E4M3_E8M0},
     {"int8_row", PLE_ROW_INT8_ROW},
     {"nvfp4", PLE_ROW_NVFP4}}};

template <class Enum, std::size_t kCount>
std::string_view name_of(const Names<Enum, kCount>& names, Enum value) {
  for (const auto& [name, named] : names) {
    if (named == value) return name;
  }
  return "unknown";
}

// Refuses a word that is not among the names; `what` is the argument's name.
template <class Enum, std::size_t kCount>
Enum value_of(const Names<Enum, kCount>& names, std::string_view what, std::string_view word) {
  std::string choices;
  for (const auto& [name, named] : names) {
    if (name == word) return named;
    choices += (choices.empty() ? "'" : ", '") + std::string(name) + "'";
  }
  throw Error(PLE_INVALID_ARGUMENT,
              std::string(what) + " is '" + std::string(word) + "', but must be one of " + choices);
}

}  // namespace pleiades::python
