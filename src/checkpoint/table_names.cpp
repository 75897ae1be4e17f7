#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.hpp"
#include "checkpoint/table_reader.hpp"

// What table_reader.cpp reads, to be written.

namespace ple {
namespace {

constexpr std::string_view kCodes = ".weight";
constexpr std::string_view kScale = ".weight_scale";
constexpr std::string_view kPlainScale = ".scale";  // of E8M0 scales, as DeepSeek names them
constexpr std::string_view kTableScale = ".weight_scale_2";
constexpr std::string_view kInterleaved = ".rows_";
constexpr std::string_view kShard = ".shard_";
constexpr std::array kScaleSuffixes = {kScale, kPlainScale, kTableScale};

// The names of what lies beside the codes, and how much of it a row has.
TensorInfo scales_of(const std::string& stem, const RowEncoding& encoding, std::int64_t rows) {
  const std::int64_t dim = encoding.dim;
  switch (encoding.format) {
    case RowFormat::fp8_e4m3_e8m0:
      return {.name = stem + std::string(kPlainScale),
              .dtype = DType::f8_e8m0,
              .shape = {rows, dim / 32}};
    case RowFormat::nvfp4:
      return {
          .name = stem + std::string(kScale), .dtype = DType::f8_e4m3, .shape = {rows, dim / 16}};
    default:
      return {.name = stem + std::string(kScale), .dtype = DType::f32, .shape = {rows, 1}};
  }
}

DType code_type(RowFormat format) {
  switch (format) {
    case RowFormat::bf16:
      return DType::bf16;
    case RowFormat::f16:
      return DType::f16;
    case RowFormat::f32:
      return DType::f32;
    case RowFormat::int8_row:
      return DType::i8;
    case RowFormat::nvfp4:
      return DType::u8;
    default:
      return DType::f8_e4m3;
  }
}

}  // namespace

std::optional<TableTensorName> parse_table_tensor(std::string_view name) {
  TableTensorName parsed;
  const std::size_t rows = name.rfind(kInterleaved);
  if (rows != name.npos && name.find('.', rows + 1) == name.npos) {
    parsed.holds_rows = true;
    name = name.substr(0, rows);
  } else if (name.ends_with(kCodes)) {
    parsed.holds_rows = true;
    name.remove_suffix(kCodes.size());
  } else {
    const auto* suffix = std::find_if(kScaleSuffixes.begin(), kScaleSuffixes.end(),
                                      [name](std::string_view end) { return name.ends_with(end); });
    if (suffix == kScaleSuffixes.end()) return std::nullopt;
    name.remove_suffix(suffix->size());
  }
  parsed.stem = name;
  const std::size_t shard = name.rfind(kShard);
  const bool is_shard = shard != name.npos && name.find('.', shard + 1) == name.npos;
  parsed.table = is_shard ? name.substr(0, shard) : name;
  return parsed;
}

std::vector<TensorInfo> row_tensors(const std::string& stem, const RowEncoding& encoding,
                                    std::uint64_t row_count, bool interleaved) {
  const auto rows = static_cast<std::int64_t>(row_count);
  if (interleaved) {
    return {{.name = fmt::format("{}{}{}", stem, kInterleaved, row_format_name(encoding.format)),
             .dtype = DType::u8,
             .shape = {rows, encoding.row_bytes}}};
  }
  const std::int64_t codes = encoding.format == RowFormat::nvfp4 ? encoding.dim / 2 : encoding.dim;
  std::vector<TensorInfo> tensors = {{.name = stem + std::string(kCodes),
                                      .dtype = code_type(encoding.format),
                                      .shape = {rows, codes}}};
  if (has_row_scales(encoding.format)) tensors.push_back(scales_of(stem, encoding, rows));
  return tensors;
}

std::optional<TensorInfo> table_scale_tensor(const std::string& table, RowFormat format) {
  if (format != RowFormat::fp8_e4m3 && format != RowFormat::nvfp4) return std::nullopt;
  const std::string_view suffix = format == RowFormat::nvfp4 ? kTableScale : kScale;
  return TensorInfo{.name = table + std::string(suffix), .dtype = DType::f32, .shape = {}};
}

}  // namespace ple
