#include "table/row_flight.hpp"

#include <algorithm>
#include <cstring>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace ple {

bool RowFlight::is_landed() const {
  MutexLock lock(mutex_);
  return !listed_ && reads_out_ == 0;
}

void RowFlight::load(std::span<const RowRead> rows) {
  MutexLock lock(mutex_);
  PLE_ASSERT(!listed_ && reads_out_ == 0);
  rows_.assign(rows.begin(), rows.end());
  plan_.build(layout_->map, layout_->files.limits(), rows);
  parts_missing_.assign(rows.size(), static_cast<std::uint8_t>(layout_->map.part_count()));
  pieces_left_ = plan_.piece_count();
  next_read_ = 0;
  first_error_ = {};
  listed_ = !rows.empty();
  closed_.store(rows.empty(), std::memory_order_release);
}

void RowFlight::unload() {
  MutexLock lock(mutex_);
  listed_ = false;
  closed_.store(true, std::memory_order_release);
}

Status RowFlight::wait(std::chrono::nanoseconds deadline) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point now = Clock::now();
  const bool never = deadline > Clock::time_point::max() - now;
  const Clock::time_point time = never ? Clock::time_point::max() : now + deadline;
  MutexLock lock(mutex_);
  while (!closed()) {
    if (closed_changed_.wait_until(mutex_, time) || closed()) continue;
    first_error_ = deadline_status(deadline);
    close();
  }
  return first_error_;
}

bool RowFlight::arrived(std::size_t row_index) const {
  MutexLock lock(mutex_);
  return row_index < parts_missing_.size() && parts_missing_[row_index] == 0;
}

bool RowFlight::next(BlockRead& read) {
  MutexLock lock(mutex_);
  if (closed() || next_read_ == plan_.read_count()) {
    listed_ = false;
    return false;
  }
  read = plan_.read(next_read_++);
  ++reads_out_;
  return true;
}

bool RowFlight::complete(const BlockRead& read, std::span<const std::byte> data,
                         const Status& status) {
  return settle_read(read, data, status.is_ok() ? check_sums(read, data) : status);
}

Status RowFlight::check_sums(const BlockRead& read, std::span<const std::byte> data) const {
  const std::optional<BlockSums>& sums = layout_->files.sums[read.file_index];
  if (!sums) return {};
  const std::optional<std::uint64_t> bad_offset = sums->first_bad_block(read.offset, data);
  if (!bad_offset) return {};
  return error(StatusCode::corrupt, "file '{}': the block at offset {} does not have its checksum",
               layout_->files.file(read.file_index).path(), *bad_offset);
}

bool RowFlight::settle_read(const BlockRead& read, std::span<const std::byte> data,
                            const Status& status) {
  MutexLock lock(mutex_);
  --reads_out_;
  if (closed()) return false;
  const std::span<const ReadPlan::Piece> pieces = plan_.pieces(read.index);
  // Only the rows on the bad block are lost: each is read alone.
  if (!status.is_ok() && pieces.size() > 1 &&
      plan_.split(layout_->map, layout_->files.limits(), read.index)) {
    return !std::exchange(listed_, true);
  }
  for (const ReadPlan::Piece& piece : pieces) settle(piece, read, data, status);
  pieces_left_ -= pieces.size();
  if (pieces_left_ == 0) close();
  return false;
}

void RowFlight::abandon(const Status& reason) {
  MutexLock lock(mutex_);
  listed_ = false;
  if (closed()) return;
  fail(reason);
  close();
}

void RowFlight::settle(const ReadPlan::Piece& piece, const BlockRead& read,
                       std::span<const std::byte> data, const Status& status) {
  const RowRead& row = rows_[piece.row_index];
  if (!status.is_ok()) {
    return fail(error(status.code(), "row {}: {}", row.row, status.message()));
  }
  const std::uint64_t begin = piece.offset() - read.offset;
  const std::uint32_t piece_bytes = layout_->map.part_bytes(piece.part);
  if (begin + piece_bytes > data.size()) {
    return fail(error(StatusCode::io_error,
                      "row {}: file '{}' ends at byte {}, before the row's {} bytes at offset {}",
                      row.row, layout_->files.file(read.file_index).path(),
                      read.offset + data.size(), piece_bytes, piece.offset()));
  }
  std::memcpy(row.destination + layout_->map.part_offset(piece.part), data.data() + begin,
              piece_bytes);
  --parts_missing_[piece.row_index];
}

void RowFlight::fail(const Status& status) {
  if (first_error_.is_ok()) first_error_ = status;
}

void RowFlight::close() {
  // Pieces are ordered by file, so each file is asked about once.
  std::uint32_t checked_file = UINT32_MAX;
  Status unchanged;
  for (const ReadPlan::Piece& piece : plan_.pieces()) {
    if (piece.file_index() != checked_file) {
      checked_file = piece.file_index();
      unchanged = layout_->files.file(checked_file).check_unchanged();
      if (!unchanged.is_ok()) first_error_ = unchanged;
    }
    if (!unchanged.is_ok()) ++parts_missing_[piece.row_index];
  }
  closed_.store(true, std::memory_order_release);
  closed_changed_.notify_all();
}

Status RowFlight::deadline_status(std::chrono::nanoseconds deadline) const {
  const auto is_missing = [](std::uint8_t parts) { return parts != 0; };
  const auto first = std::find_if(parts_missing_.begin(), parts_missing_.end(), is_missing);
  const auto count = std::count_if(parts_missing_.begin(), parts_missing_.end(), is_missing);
  const RowId row = rows_[static_cast<std::size_t>(first - parts_missing_.begin())].row;
  return error(StatusCode::deadline,
               "{} of {} rows did not arrive within {} ms; the first is row {} of file '{}'", count,
               rows_.size(),
               std::chrono::duration_cast<std::chrono::milliseconds>(deadline).count(), row,
               layout_->files.file(layout_->map.locate(0, row).file_index).path());
}

}  // namespace ple
