#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "checkpoint/tensor_files.hpp"

namespace ple {

// Finds the table called name: the tensor `name.weight`, or its row shards `name.shard_<n>.weight`
// in numeric order, cut as torch.chunk cuts (equal ones, the last may be shorter, empty ones may
// follow). The rows must add up to row_count. The element type and the scales beside the codes
// (`weight_scale` or `scale`) decide the row format; a scale that is absent, or an encoding that is
// not known, is refused by name.
//
// A table whose rows were interleaved, so that a row's codes and scales are one read, is the tensor
// `name.rows_<format>` (or its shards): U8 [rows, row_bytes], format as row_format_name spells it.
Result<TableSpec> read_table(const TensorFiles& files, const std::string& name,
                             std::uint64_t row_count, std::int32_t dim);

// A tensor's name as one of a table's: table[.shard_<n>].<suffix>. stem is all before the suffix.
struct TableTensorName {
  std::string table;
  std::string stem;
  bool holds_rows = false;  // rows, or their codes; otherwise scales
};
// Nothing for a name that no table has.
std::optional<TableTensorName> parse_table_tensor(std::string_view name);

// The tensors that hold row_count rows, stem as above: one a part, in the order of the row's bytes.
// interleaved: all parts in one.
std::vector<TensorInfo> row_tensors(const std::string& stem, const RowEncoding& encoding,
                                    std::uint64_t row_count, bool interleaved);

// The tensor of the encoding's one scale, where the format has one.
std::optional<TensorInfo> table_scale_tensor(const std::string& table, RowFormat format);

}  // namespace ple
