#include "table/row_stream.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace ple {

namespace {
constexpr std::chrono::seconds kDeadline(30);
}  // namespace

Result<std::unique_ptr<RowStream>> RowStream::open(RowSource& rows, std::uint64_t first_row,
                                                   std::size_t batch_bytes) {
  std::unique_ptr<RowStream> stream(new RowStream(rows, first_row));
  const auto row_bytes = static_cast<std::size_t>(rows.encoding().row_bytes);
  stream->batch_rows_ = std::max<std::size_t>(1, batch_bytes / row_bytes);
  for (Half& half : stream->halves_) {
    PLE_TRY_ASSIGN(half.buffer, AlignedBuffer::allocate(stream->batch_rows_ * row_bytes));
    half.batch = rows.make_batch();
  }
  PLE_TRY(stream->submit(stream->halves_[0]));
  return stream;
}

// The reads that are out write to the buffers.
RowStream::~RowStream() {
  for (Half& half : halves_) {
    if (half.batch == nullptr) continue;
    const Status settled = half.batch->wait(std::chrono::nanoseconds(0));
    static_cast<void>(settled);  // whatever became of rows that nobody wants any more
  }
}

Status RowStream::submit(Half& half) {
  const auto row_bytes = static_cast<std::size_t>(source_.encoding().row_bytes);
  half.rows = {.begin = next_row_,
               .count = std::min(batch_rows_, source_.row_count() - next_row_),
               .bytes = half.buffer.data()};
  reads_.resize(half.rows.count);
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    reads_[i] = {static_cast<RowId>(next_row_ + i), half.buffer.data() + i * row_bytes};
  }
  next_row_ += half.rows.count;
  return source_.submit(reads_, half.batch);
}

Result<RowStream::Rows> RowStream::next() {
  Half& ready = halves_[turn_];
  turn_ = 1 - turn_;
  PLE_TRY(ready.batch->wait(kDeadline));
  PLE_TRY(submit(halves_[turn_]));
  return ready.rows;
}

}  // namespace ple
