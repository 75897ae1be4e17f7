#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"

namespace ple {

// One row to fetch. destination has room for row_bytes and stays valid until the batch is done.
struct RowRead {
  RowId row = kNoRow;
  std::byte* destination = nullptr;
};

// A set of row reads in flight, shared by the step that waits and the threads that read. A batch
// is filled and submitted once, is then done once, and can be reset and used again after that;
// resetting keeps its memory, so a warm step allocates nothing.
class RowReadBatch {
 public:
  virtual ~RowReadBatch() = default;

  // Whether every row has arrived or failed.
  virtual bool done() const = 0;

  // Blocks until done or until the deadline passed. ok: every row is in place. Otherwise the first
  // failure; after `deadline` the batch is cancelled: nothing will be written to a destination any
  // more, though buffers of the reader stay in use until their reads complete.
  virtual Status wait(std::chrono::nanoseconds deadline) = 0;

  // After done or cancelled: whether row number index of the submitted span is in place.
  virtual bool arrived(std::size_t index) const = 0;
};

// Where rows come from: a table on disk, or a fake in tests. Thread-safe.
class RowSource {
 public:
  virtual ~RowSource() = default;

  virtual std::uint64_t row_count() const = 0;
  virtual RowEncoding encoding() const = 0;

  // A batch to submit with; belongs to one step at a time.
  virtual std::shared_ptr<RowReadBatch> make_batch() = 0;

  // Starts reading the rows (distinct, any order) and returns. The batch must be fresh or done.
  // An error here means that nothing was started.
  virtual Status submit(std::span<const RowRead> reads,
                        const std::shared_ptr<RowReadBatch>& batch) = 0;
};

}  // namespace ple
