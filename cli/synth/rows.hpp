#pragma once

#include <cstdint>
#include <string>

#include "synth/families.hpp"

namespace pleiades::cli {

// Rows of a table to be written: those of one tensor, or of a shard.
struct PlannedRows {
  std::string table;  // the name before ".weight"
  std::string shard;  // "" or ".shard_3"
  std::uint64_t row_begin = 0;
  std::uint64_t row_count = 0;
  std::uint64_t dim = 0;
  std::uint64_t stream = 0;        // of the noise of the codes
  std::uint64_t scale_stream = 0;  // of the scales
};

// Adds the tensors of rows: their codes, and what scales each row has beside them. Refuses elements
// that do not fill the blocks of the format.
void add_rows(RowDtype dtype, const PlannedRows& rows, CheckpointPlan& plan);

// Adds the one scale that a format has for a whole table, if it has one.
void add_table_scale(RowDtype dtype, const std::string& table, CheckpointPlan& plan);

}  // namespace pleiades::cli
