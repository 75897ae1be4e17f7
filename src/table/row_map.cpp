#include "table/row_map.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ple {

namespace {
constexpr std::size_t kPartsMax = 16;
constexpr std::uint64_t kRowBytesMax = std::uint64_t{1} << 20;
}  // namespace

Result<RowMap> RowMap::make(const TableSpec& table, std::span<const BlockFile> files) {
  RowMap map;
  map.row_count_ = table.row_count;
  if (table.row_count >= kNoRow) {
    return error(StatusCode::unsupported, "a table of {} rows: at most {} are possible",
                 table.row_count, kNoRow - 1);
  }
  if (table.part_bytes.size() > kPartsMax) {
    return error(StatusCode::unsupported, "rows of {} parts: at most {} are possible",
                 table.part_bytes.size(), kPartsMax);
  }
  std::uint64_t row_bytes = 0;
  for (const std::uint32_t part_bytes : table.part_bytes) {
    if (part_bytes == 0 || part_bytes > kRowBytesMax) {
      return error(StatusCode::invalid_argument,
                   "a part of {} bytes of a row: 1 to {} are possible", part_bytes, kRowBytesMax);
    }
    Part& part = map.parts_.emplace_back();
    part.bytes = part_bytes;
    part.row_offset = static_cast<std::uint32_t>(row_bytes);
    row_bytes += part_bytes;
  }
  if (row_bytes == 0 || row_bytes != static_cast<std::uint64_t>(table.encoding.row_bytes)) {
    return error(StatusCode::invalid_argument,
                 "rows of {} bytes, but the {} parts of a row have {} bytes together",
                 table.encoding.row_bytes, table.part_bytes.size(), row_bytes);
  }
  for (const ShardExtent& shard : table.shards) {
    if (shard.part >= map.parts_.size()) {
      return error(StatusCode::invalid_argument, "an extent of part {} in a table of {} parts",
                   shard.part, map.parts_.size());
    }
    PLE_TRY(add(map.parts_[shard.part], shard, files));
  }
  for (const Part& part : map.parts_) {
    const std::uint64_t covered = part.extents.empty() ? 0 : part.extents.back().row_end;
    if (covered != table.row_count) {
      return error(StatusCode::invalid_argument, "a table of {} rows has extents for {} only",
                   table.row_count, covered);
    }
  }
  return map;
}

Status RowMap::add(Part& part, const ShardExtent& shard, std::span<const BlockFile> files) {
  if (shard.file_index >= files.size()) {
    return error(StatusCode::invalid_argument, "an extent in file {} of {}", shard.file_index,
                 files.size());
  }
  const BlockFile& file = files[shard.file_index];
  const std::uint64_t expected = part.extents.empty() ? 0 : part.extents.back().row_end;
  if (shard.row_begin != expected) {
    return error(StatusCode::invalid_argument,
                 "file '{}': an extent begins with row {} where row {} is due", file.path(),
                 shard.row_begin, expected);
  }
  if (shard.row_count >= kNoRow || shard.offset > file.bytes() ||
      shard.row_count > (file.bytes() - shard.offset) / part.bytes) {
    return error(StatusCode::corrupt,
                 "file '{}' of {} bytes is too short for {} rows of {} bytes at offset {}",
                 file.path(), file.bytes(), shard.row_count, part.bytes, shard.offset);
  }
  if (shard.row_count == 0) return {};
  if (part.extents.empty()) part.usual_rows = shard.row_count;
  part.extents.push_back(
      {shard.row_begin, shard.row_begin + shard.row_count, shard.offset, shard.file_index});
  return {};
}

std::uint32_t RowMap::part_bytes_max() const {
  std::uint32_t bytes = 0;
  for (const Part& part : parts_) bytes = std::max(bytes, part.bytes);
  return bytes;
}

RowPlace RowMap::locate(std::uint32_t part_index, RowId row) const {
  const Part& part = parts_[part_index];
  const std::size_t guess = std::min<std::size_t>(row / part.usual_rows, part.extents.size() - 1);
  const Extent* extent = &part.extents[guess];
  if (row < extent->row_begin || row >= extent->row_end) {
    extent = &*std::upper_bound(part.extents.begin(), part.extents.end(), row,
                                [](RowId id, const Extent& other) { return id < other.row_end; });
  }
  return {extent->file_index, extent->offset + (row - extent->row_begin) * part.bytes};
}

}  // namespace ple
