#pragma once

#include <cstdint>
#include <string>

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

}  // namespace ple
