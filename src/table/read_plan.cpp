#include "table/read_plan.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ple {

void ReadPlan::build(const RowMap& map, const Limits& limits, std::span<const RowRead> rows) {
  pieces_.clear();
  reads_.clear();
  for (std::uint32_t row_index = 0; row_index < rows.size(); ++row_index) {
    for (std::uint32_t part = 0; part < map.part_count(); ++part) {
      const RowPlace place = map.locate(part, rows[row_index].row);
      pieces_.push_back(
          {std::uint64_t{place.file_index} << kOffsetBits | place.offset, row_index, part});
    }
  }
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.place < b.place; });
  for (std::uint32_t piece_index = 0; piece_index < pieces_.size(); ++piece_index) {
    const BlockRead block = blocks_of(pieces_[piece_index], map, limits);
    if (!reads_.empty()) {
      BlockRead& last = reads_.back().block;
      const std::uint64_t end = std::max(last.offset + last.bytes, block.offset + block.bytes);
      if (last.file_index == block.file_index && block.offset <= last.offset + last.bytes &&
          end - last.offset <= limits.read_bytes_max) {
        last.bytes = static_cast<std::uint32_t>(end - last.offset);
        ++reads_.back().piece_count;
        continue;
      }
    }
    add_read(block, piece_index);
  }
}

bool ReadPlan::split(const RowMap& map, const Limits& limits, std::size_t read_index) {
  const Read read = reads_[read_index];
  const auto old_end = static_cast<std::ptrdiff_t>(reads_.size());
  const Status added = or_out_of_memory([&]() -> Status {
    for (std::uint32_t i = 0; i < read.piece_count; ++i) {
      const std::uint32_t piece_index = read.piece_begin + i;
      add_read(blocks_of(pieces_[piece_index], map, limits), piece_index);
    }
    return {};
  });
  if (!added.is_ok()) reads_.erase(reads_.begin() + old_end, reads_.end());
  return added.is_ok();
}

std::span<const ReadPlan::Piece> ReadPlan::pieces(std::size_t read_index) const {
  const Read& read = reads_[read_index];
  return std::span(pieces_).subspan(read.piece_begin, read.piece_count);
}

BlockRead ReadPlan::blocks_of(const Piece& piece, const RowMap& map, const Limits& limits) {
  const std::uint64_t block_bytes = limits.block_bytes[piece.file_index()];
  const std::uint64_t begin = piece.offset() & ~(block_bytes - 1);
  const std::uint64_t end =
      (piece.offset() + map.part_bytes(piece.part) + block_bytes - 1) & ~(block_bytes - 1);
  return {.file_index = piece.file_index(),
          .offset = begin,
          .bytes = static_cast<std::uint32_t>(end - begin)};
}

void ReadPlan::add_read(const BlockRead& block, std::uint32_t piece_index) {
  reads_.push_back({block, piece_index, 1});
  reads_.back().block.index = static_cast<std::uint32_t>(reads_.size() - 1);
}

}  // namespace ple
