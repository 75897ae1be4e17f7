#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "io/block_batch.hpp"
#include "io/block_file.hpp"
#include "io/block_reader.hpp"
#include "table/block_sums.hpp"
#include "table/read_plan.hpp"
#include "table/row_map.hpp"
#include "table/row_source.hpp"

namespace ple {

// What the tables of an engine share: the files that hold rows, and the one reader of them.
struct TableFiles {
  std::vector<std::uint32_t> block_bytes;      // [files], of a read
  std::vector<std::optional<BlockSums>> sums;  // [files]
  BlockReaderInfo info;
  std::unique_ptr<BlockReader> reader;  // last: its threads use the rest

  const BlockFile& file(std::uint32_t file_index) const { return reader->files()[file_index]; }
  ReadPlan::Limits limits() const { return {block_bytes, reader->read_bytes_max()}; }
};

// Where the rows of a table lie. Its flights keep it; the files outlive the flights as far as they
// are with the reader.
struct TableLayout {
  RowMap map;
  const TableFiles& files;
};

// The reads of one submitted batch. Its rows are settled one by one, each in place or failed; when
// all are, or when it is cancelled, it is closed: the files are checked for changes, and nothing is
// written to a destination from then on.
class RowFlight final : public BlockBatch {
 public:
  explicit RowFlight(std::shared_ptr<const TableLayout> layout) : layout_(std::move(layout)) {}

  // Whether no read of it is with the reader any more, so that it can be loaded again.
  bool is_landed() const;

  // Plans the reads of the rows; the flight is then ready to be given to the reader. It must have
  // landed, and the rows exist.
  void load(std::span<const RowRead> rows);

  // Takes back what load prepared when the reader refused it.
  void unload();

  bool closed() const { return closed_.load(std::memory_order_acquire); }
  Status wait(std::chrono::nanoseconds deadline);
  bool arrived(std::size_t row_index) const;

 private:
  bool next(BlockRead& read) override;
  bool complete(const BlockRead& read, std::span<const std::byte> data,
                const Status& status) override;
  void abandon(const Status& reason) override;

  Status check_sums(const BlockRead& read, std::span<const std::byte> data) const;
  bool settle_read(const BlockRead& read, std::span<const std::byte> data, const Status& status);
  void settle(const ReadPlan::Piece& piece, const BlockRead& read, std::span<const std::byte> data,
              const Status& status) PLE_REQUIRES(mutex_);
  void fail(const Status& status) PLE_REQUIRES(mutex_);
  void close() PLE_REQUIRES(mutex_);
  Status deadline_status(std::chrono::nanoseconds deadline) const PLE_REQUIRES(mutex_);

  const std::shared_ptr<const TableLayout> layout_;
  mutable Mutex mutex_;
  ConditionVariable closed_changed_;
  std::atomic<bool> closed_{true};

  ReadPlan plan_ PLE_GUARDED_BY(mutex_);
  std::vector<RowRead> rows_ PLE_GUARDED_BY(mutex_);
  std::vector<std::uint8_t> parts_missing_ PLE_GUARDED_BY(mutex_);  // [rows_]; 0: in place
  std::size_t pieces_left_ PLE_GUARDED_BY(mutex_) = 0;
  std::size_t next_read_ PLE_GUARDED_BY(mutex_) = 0;
  std::size_t reads_out_ PLE_GUARDED_BY(mutex_) = 0;  // given by next, not complete
  bool listed_ PLE_GUARDED_BY(mutex_) = false;        // on the reader's list
  Status first_error_ PLE_GUARDED_BY(mutex_);
};

}  // namespace ple
