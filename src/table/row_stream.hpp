#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "table/row_source.hpp"

namespace ple {

// The rows of a table one after the other, with the next ones read while the caller is busy with
// these. Takes two buffers of batch_bytes (or of one row).
class RowStream {
 public:
  static constexpr std::size_t kBatchBytes = std::size_t{8} << 20;

  // rows must outlive the stream.
  static Result<std::unique_ptr<RowStream>> open(RowSource& rows, std::uint64_t first_row,
                                                 std::size_t batch_bytes = kBatchBytes);
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  struct Rows {
    std::uint64_t begin = 0;
    std::uint64_t count = 0;           // 0: the table has ended
    const std::byte* bytes = nullptr;  // [count, row_bytes], until the next call
  };
  Result<Rows> next();

  // Of every batch but the last.
  std::uint64_t batch_rows() const { return batch_rows_; }

 private:
  struct Half {
    AlignedBuffer buffer;
    std::shared_ptr<RowReadBatch> batch;
    Rows rows;
  };

  RowStream(RowSource& rows, std::uint64_t first_row) : source_(rows), next_row_(first_row) {}
  Status submit(Half& half);

  RowSource& source_;
  std::uint64_t next_row_;
  std::uint64_t batch_rows_ = 0;
  std::array<Half, 2> halves_;
  std::size_t turn_ = 0;  // the half that is read
  std::vector<RowRead> reads_;
};

}  // namespace ple
