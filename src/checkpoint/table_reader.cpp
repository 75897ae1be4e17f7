#include "checkpoint/table_reader.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/number_formats.hpp"

namespace ple {
namespace {

// The tensors that hold one part of the rows, in row order.
using Shards = std::vector<TensorInfo>;

// n of "shard_<n>.<suffix>" behind the prefix; nothing for other names. No leading zeros, so that
// two names cannot mean one shard.
std::optional<std::uint32_t> shard_number(std::string_view name, std::string_view prefix,
                                          std::string_view suffix) {
  if (!name.ends_with(suffix) || name.size() <= prefix.size() + suffix.size()) return std::nullopt;
  name.remove_prefix(prefix.size());
  name.remove_suffix(suffix.size());
  std::uint32_t number = 0;
  const auto [end, failure] = std::from_chars(name.data(), name.data() + name.size(), number);
  const bool is_plain = failure == std::errc() && end == name.data() + name.size();
  if (!is_plain || (name.size() > 1 && name[0] == '0')) return std::nullopt;
  return number;
}

// `name<suffix>`, or every `name.shard_<n><suffix>`; empty where there is neither.
Result<Shards> find_shards(const TensorFiles& files, const std::string& name,
                           const std::string& suffix) {
  const std::string prefix = name + ".shard_";
  std::vector<std::pair<std::uint32_t, TensorInfo>> found;
  for (const std::string_view tensor : files.names(prefix)) {
    if (const auto number = shard_number(tensor, prefix, suffix)) {
      found.emplace_back(*number, *files.find(tensor));
    }
  }
  const TensorInfo* whole = files.find(name + suffix);
  if (whole != nullptr && !found.empty()) {
    return error(StatusCode::corrupt, "table '{}' is there both whole and in {} shards", name,
                 found.size());
  }
  if (whole != nullptr) return Shards{*whole};
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Shards shards;
  for (auto& [number, tensor] : found) {
    if (number != shards.size()) {
      return error(StatusCode::corrupt, "table '{}' lacks shard_{}{} (shard_{} is there)", name,
                   shards.size(), suffix, number);
    }
    shards.push_back(std::move(tensor));
  }
  return shards;
}

// Appends the extents of one part: rows of elements_per_row elements that add up to row_count.
Status append_part(const Shards& shards, const std::string& name, std::int64_t elements_per_row,
                   TableSpec& table) {
  const auto part = static_cast<std::uint32_t>(table.part_bytes.size());
  const auto row_bytes =
      static_cast<std::uint32_t>(elements_per_row * dtype_bits(shards[0].dtype) / 8);
  const std::int64_t chunk = shards[0].shape.empty() ? 0 : shards[0].shape[0];
  std::uint64_t row = 0;
  bool ended = false;  // after a short shard only empty ones may come
  for (const TensorInfo& shard : shards) {
    // A scale per row may be [rows] or [rows, 1].
    const bool is_column = elements_per_row == 1 && shard.shape.size() == 1;
    if (shard.dtype != shards[0].dtype ||
        !(is_column || (shard.shape.size() == 2 && shard.shape[1] == elements_per_row))) {
      return error(StatusCode::corrupt, "tensor '{}' is {} [{}], expected {} [rows, {}]",
                   shard.name, dtype_name(shard.dtype), fmt::join(shard.shape, ", "),
                   dtype_name(shards[0].dtype), elements_per_row);
    }
    const std::int64_t rows = shard.shape[0];
    if (rows > chunk || (ended && rows != 0)) {
      return error(StatusCode::corrupt,
                   "tensor '{}' has {} rows: shards of '{}' must all have {} but the last",
                   shard.name, rows, name, chunk);
    }
    ended = ended || rows < chunk;
    if (rows == 0) continue;
    table.shards.push_back({.file_index = shard.file_index,
                            .part = part,
                            .offset = shard.offset,
                            .row_begin = row,
                            .row_count = static_cast<std::uint64_t>(rows)});
    row += static_cast<std::uint64_t>(rows);
  }
  if (row != table.row_count) {
    return error(StatusCode::corrupt, "table '{}' has {} rows in {} tensors, its geometry needs {}",
                 name, row, shards.size(), table.row_count);
  }
  table.part_bytes.push_back(row_bytes);
  return {};
}

bool is_scalar(const TensorInfo& tensor) {
  return tensor.shape.empty() || (tensor.shape.size() == 1 && tensor.shape[0] == 1);
}

// A table's one scale, F32 or BF16; where each shard has its own, they must be equal.
Result<float> read_scale(const TensorFiles& files, const Shards& scales) {
  std::optional<float> scale;
  for (const TensorInfo& tensor : scales) {
    float value = 0.0F;
    if (!is_scalar(tensor) || (tensor.dtype != DType::f32 && tensor.dtype != DType::bf16)) {
      return error(StatusCode::corrupt, "scale '{}' is {} [{}], expected one F32 or BF16",
                   tensor.name, dtype_name(tensor.dtype), fmt::join(tensor.shape, ", "));
    }
    std::array<std::byte, 4> bytes{};
    PLE_TRY(files.read(tensor, bytes));
    if (tensor.dtype == DType::f32) {
      std::memcpy(&value, bytes.data(), sizeof value);
    } else {
      std::uint16_t bits = 0;
      std::memcpy(&bits, bytes.data(), sizeof bits);
      value = bf16_to_f32(bits);
    }
    if (!std::isfinite(value) || value <= 0.0F) {
      return error(StatusCode::corrupt, "scale '{}' is {}", tensor.name, value);
    }
    if (scale.value_or(value) != value) {
      return error(StatusCode::corrupt, "scale '{}' is {}, that of the shards before it {}",
                   tensor.name, value, *scale);
    }
    scale = value;
  }
  return *scale;
}

// The format that codes of this type with these scales have.
Result<RowFormat> choose_format(const std::string& name, const TensorInfo& codes,
                                const Shards& scales) {
  const DType scale_type = scales.empty() ? DType::boolean : scales[0].dtype;
  const bool has_one_scale = !scales.empty() && is_scalar(scales[0]);
  const bool takes_scale =
      codes.dtype == DType::f8_e4m3 || codes.dtype == DType::i8 || codes.dtype == DType::u8;
  if (takes_scale && scales.empty()) {
    return error(StatusCode::corrupt, "table '{}' has {} rows but no weight_scale", name,
                 dtype_name(codes.dtype));
  }
  if (!takes_scale && !scales.empty()) {
    return error(StatusCode::unsupported, "table '{}' has {} rows and a scale '{}'", name,
                 dtype_name(codes.dtype), scales[0].name);
  }
  switch (codes.dtype) {
    case DType::bf16:
      return RowFormat::bf16;
    case DType::f16:
      return RowFormat::f16;
    case DType::f32:
      return RowFormat::f32;
    case DType::f8_e4m3:
      if (has_one_scale) return RowFormat::fp8_e4m3;
      if (scale_type == DType::f32) return RowFormat::fp8_e4m3_row;
      if (scale_type == DType::f8_e8m0) return RowFormat::fp8_e4m3_e8m0;
      break;
    case DType::i8:
      if (scale_type == DType::f32) return RowFormat::int8_row;
      break;
    case DType::u8:
      if (scale_type == DType::f8_e4m3) return RowFormat::nvfp4;
      break;
    default:
      return error(StatusCode::unsupported, "table '{}' has {} rows, an encoding not known here",
                   name, dtype_name(codes.dtype));
  }
  return error(StatusCode::unsupported,
               "table '{}' has {} rows with scales of {} [{}], an encoding not known here", name,
               dtype_name(codes.dtype), dtype_name(scale_type), fmt::join(scales[0].shape, ", "));
}

// NVFP4's scale of the whole table.
Result<float> read_global_scale(const TensorFiles& files, const std::string& name) {
  PLE_TRY_ASSIGN(const Shards scales, find_shards(files, name, ".weight_scale_2"));
  if (scales.empty()) {
    return error(StatusCode::corrupt, "table '{}' has NVFP4 rows but no weight_scale_2", name);
  }
  return read_scale(files, scales);
}

// Appends codes, and where they lie beside them, the scales.
Status append_parts(const TensorFiles& files, const std::string& name, const Shards& codes,
                    const Shards& scales, TableSpec& table) {
  const std::int32_t dim = table.encoding.dim;
  const RowFormat format = table.encoding.format;
  PLE_TRY(append_part(codes, name, format == RowFormat::nvfp4 ? dim / 2 : dim, table));
  switch (format) {
    case RowFormat::fp8_e4m3: {
      PLE_TRY_ASSIGN(table.encoding.scale, read_scale(files, scales));
      return {};
    }
    case RowFormat::fp8_e4m3_row:
    case RowFormat::int8_row:
      return append_part(scales, name, 1, table);
    case RowFormat::fp8_e4m3_e8m0:
      return append_part(scales, name, dim / 32, table);
    case RowFormat::nvfp4: {
      PLE_TRY_ASSIGN(table.encoding.scale, read_global_scale(files, name));
      return append_part(scales, name, dim / 16, table);
    }
    default:
      return {};
  }
}

// The table of interleaved rows, where there is one.
Result<std::optional<TableSpec>> read_interleaved(const TensorFiles& files, const std::string& name,
                                                  std::uint64_t row_count, std::int32_t dim) {
  for (const RowFormat format :
       {RowFormat::fp8_e4m3_row, RowFormat::fp8_e4m3_e8m0, RowFormat::int8_row, RowFormat::nvfp4}) {
    const std::string suffix = fmt::format(".rows_{}", row_format_name(format));
    PLE_TRY_ASSIGN(const Shards rows, find_shards(files, name, suffix));
    if (rows.empty()) continue;
    const std::int32_t row_bytes = encoded_row_bytes(format, dim);
    if (rows[0].dtype != DType::u8 || row_bytes == 0) {
      return error(StatusCode::corrupt, "table '{}' holds {} as rows of {} elements in {}", name,
                   dtype_name(rows[0].dtype), dim, suffix);
    }
    TableSpec table{.row_count = row_count};
    table.encoding = {.format = format, .dim = dim, .row_bytes = row_bytes};
    PLE_TRY(append_part(rows, name, row_bytes, table));
    if (format == RowFormat::nvfp4) {
      PLE_TRY_ASSIGN(table.encoding.scale, read_global_scale(files, name));
    }
    return std::optional(table);
  }
  return std::optional<TableSpec>();
}

}  // namespace

Result<TableSpec> read_table(const TensorFiles& files, const std::string& name,
                             std::uint64_t row_count, std::int32_t dim) {
  PLE_TRY_ASSIGN(const Shards codes, find_shards(files, name, ".weight"));
  PLE_TRY_ASSIGN(const std::optional<TableSpec> interleaved,
                 read_interleaved(files, name, row_count, dim));
  if (interleaved && codes.empty()) return *interleaved;
  if (interleaved || codes.empty()) {
    return error(StatusCode::corrupt, "'{}' {} tensor '{}.weight' or its shards", files.directory(),
                 interleaved ? "holds interleaved rows and" : "lacks", name);
  }
  PLE_TRY_ASSIGN(Shards scales, find_shards(files, name, ".weight_scale"));
  if (scales.empty()) {
    PLE_TRY_ASSIGN(scales, find_shards(files, name, ".scale"));
  }
  PLE_TRY_ASSIGN(const RowFormat format, choose_format(name, codes[0], scales));
  TableSpec table{.row_count = row_count};
  table.encoding = {.format = format, .dim = dim, .row_bytes = encoded_row_bytes(format, dim)};
  if (table.encoding.row_bytes == 0) {
    return error(StatusCode::corrupt,
                 "table '{}': rows of {} elements do not fill the blocks of its encoding", name,
                 dim);
  }
  PLE_TRY(append_parts(files, name, codes, scales, table));
  return table;
}

}  // namespace ple
