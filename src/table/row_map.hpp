#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"
#include "checkpoint/model_spec.hpp"
#include "io/block_file.hpp"

namespace ple {

// Where a part of a row lies.
struct RowPlace {
  std::uint32_t file_index = 0;
  std::uint64_t offset = 0;
};

// Row id -> file and offset, for each part of a row.
class RowMap {
 public:
  // Refuses a table whose extents do not cover every row of every part exactly once, or reach past
  // the end of a file.
  static Result<RowMap> make(const TableSpec& table, std::span<const BlockFile> files);

  std::uint64_t row_count() const { return row_count_; }
  std::uint32_t part_count() const { return static_cast<std::uint32_t>(parts_.size()); }
  std::uint32_t part_bytes(std::uint32_t part) const { return parts_[part].bytes; }
  // Of the part in the row.
  std::uint32_t part_offset(std::uint32_t part) const { return parts_[part].row_offset; }
  std::uint32_t part_bytes_max() const;

  // row < row_count.
  RowPlace locate(std::uint32_t part, RowId row) const;

 private:
  struct Extent {
    std::uint64_t row_begin = 0;
    std::uint64_t row_end = 0;
    std::uint64_t offset = 0;
    std::uint32_t file_index = 0;
  };

  struct Part {
    std::uint32_t bytes = 0;
    std::uint32_t row_offset = 0;
    std::vector<Extent> extents;   // by row, none empty
    std::uint64_t usual_rows = 1;  // of an extent: where all but the last are equal, a division
                                   // finds the right one
  };

  static Status add(Part& part, const ShardExtent& shard, std::span<const BlockFile> files);

  std::uint64_t row_count_ = 0;
  std::vector<Part> parts_;
};

}  // namespace ple
