#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/block_batch.hpp"
#include "table/row_map.hpp"
#include "table/row_source.hpp"

namespace ple {

// The blocks that hold a set of rows, in the order of the disk: rows that share a block, or whose
// blocks touch, come with one read.
class ReadPlan {
 public:
  // One part of one row.
  struct Piece {
    std::uint64_t place;  // file_index << kOffsetBits | offset: the order of reading
    std::uint32_t row_index;
    std::uint32_t part;

    std::uint32_t file_index() const { return static_cast<std::uint32_t>(place >> kOffsetBits); }
    std::uint64_t offset() const { return place & ((std::uint64_t{1} << kOffsetBits) - 1); }
  };

  // Files and offsets that a place can hold.
  static constexpr unsigned kOffsetBits = 48;
  static constexpr std::uint64_t kOffsetLimit = std::uint64_t{1} << kOffsetBits;
  static constexpr std::uint64_t kFileLimit = std::uint64_t{1} << (64 - kOffsetBits);

  struct Limits {
    std::span<const std::uint32_t> block_bytes;  // [files], powers of two
    std::uint32_t read_bytes_max = 0;            // at least the blocks of one piece
  };

  // Replaces the plan; keeps the memory.
  void build(const RowMap& map, const Limits& limits, std::span<const RowRead> rows);

  // Adds a read for each piece of read number read_index alone, at the end. False, and the plan is
  // as before, where there is no memory for them.
  bool split(const RowMap& map, const Limits& limits, std::size_t read_index);

  std::size_t read_count() const { return reads_.size(); }
  std::size_t piece_count() const { return pieces_.size(); }
  const BlockRead& read(std::size_t read_index) const { return reads_[read_index].block; }
  std::span<const Piece> pieces(std::size_t read_index) const;
  std::span<const Piece> pieces() const { return pieces_; }  // by file and offset

 private:
  struct Read {
    BlockRead block;
    std::uint32_t piece_begin = 0;
    std::uint32_t piece_count = 0;
  };

  static BlockRead blocks_of(const Piece& piece, const RowMap& map, const Limits& limits);
  void add_read(const BlockRead& block, std::uint32_t piece_index);

  std::vector<Piece> pieces_;
  std::vector<Read> reads_;
};

}  // namespace ple
