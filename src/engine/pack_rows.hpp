#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/thread_pool.hpp"
#include "engine/pack_plan.hpp"
#include "io/output_file.hpp"
#include "table/row_stream.hpp"

namespace ple {

// What became of a batch of rows.
struct PackedRows {
  std::span<const double> errors;  // [count], squared differences of each row
  std::span<const double> norms;   // [count], squared values before
};

// Converts rows and writes them, all threads at work. Its memory is that of a few batches.
class RowPacker {
 public:
  // table, files (of the plan) and pool must outlive the packer.
  RowPacker(const RowEncoding& old, const PackTable& table, std::span<const OutputFile> files,
            std::uint64_t batch_rows, ThreadPool& pool);

  // The largest magnitude, as bf16 bits; 0x7F80 and above: a row is not finite.
  std::uint16_t measure(const RowStream::Rows& rows);
  // Nothing is written from blocks with a row that is not finite; first_bad_row then says which.
  Result<PackedRows> convert(const RowStream::Rows& rows);

  std::optional<std::uint64_t> first_bad_row() const;

 private:
  // Rows that one thread works on at once: they stay in its cache.
  struct Block {
    std::uint64_t begin = 0;  // in the batch
    std::uint64_t end = 0;
    std::uint16_t largest = 0;
    std::optional<std::uint64_t> bad_row;
    Status status;
  };

  template <class Work>
  void for_each_block(const RowStream::Rows& rows, Work work);
  void decode(const RowStream::Rows& rows, Block& block);
  Status write(const RowStream::Rows& rows, const Block& block) const;
  Status write_part(std::uint32_t part, std::uint64_t row_begin, std::uint64_t row_end,
                    std::span<const std::byte> bytes) const;

  const RowEncoding old_;
  const PackTable& table_;
  const std::span<const OutputFile> files_;
  ThreadPool& pool_;
  const std::uint64_t block_rows_;
  const std::size_t dim_;
  const std::size_t row_bytes_;
  std::vector<Block> blocks_;
  std::vector<std::uint16_t> values_;  // [batch_rows, dim]
  std::vector<std::uint16_t> again_;   // [blocks, dim], a new row decoded
  std::vector<std::byte> encoded_;     // [batch_rows, row_bytes]
  std::vector<std::byte> split_;       // the same, part by part within a block
  std::vector<double> errors_;         // [batch_rows]
  std::vector<double> norms_;          // [batch_rows]
};

}  // namespace ple
