#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "io/batch_list.hpp"
#include "io/block_batch.hpp"
#include "io/block_file.hpp"
#include "io/read_queue.hpp"
#include "io/read_worker.hpp"

namespace ple {

struct BlockReaderOptions {
  IoBackend backend = IoBackend::automatic;
  std::uint32_t depth = 0;           // reads in flight, of each thread (uring) or of all (pread)
                                     // together; 0: chosen
  std::uint32_t thread_count = 0;    // with a ring each (uring); 0: one
  std::uint32_t block_bytes = 0;     // a power of two; 0: the smallest that each file allows
  std::uint32_t read_bytes_max = 0;  // of one read; raised to the block and rounded up to a page

  // Stands between the reader and the kernel: how tests inject faults.
  std::function<std::unique_ptr<ReadQueue>(std::unique_ptr<ReadQueue>)> wrap_queue;
};

// Which way a reader runs, for reports.
struct BlockReaderInfo {
  ReadQueueFeatures features;
  std::uint32_t thread_count = 0;
  std::uint32_t depth = 0;        // reads in flight, of all threads together
  std::uint32_t block_bytes = 0;  // the largest of the files'
  bool is_direct = false;         // every file is read past the page cache
};

// Reads blocks of files in the background, many at a time. Batches take turns. Interrupted, refused
// (EAGAIN) and short reads are continued; a buffer is used again only when the kernel has given it
// back. Thread-safe.
class BlockReader {
 public:
  // Takes over the files and starts the threads. The automatic backend is io_uring, or pread where
  // io_uring is refused.
  static Result<std::unique_ptr<BlockReader>> open(std::vector<BlockFile> files,
                                                   const BlockReaderOptions& options);

  // Abandons what was not started and waits for the reads in flight.
  ~BlockReader();

  // Starts reading the batch and returns; allocates nothing. The batch must not be with a reader.
  Status submit(std::shared_ptr<BlockBatch> batch) { return list_.append(std::move(batch)); }

  std::span<const BlockFile> files() const { return files_; }
  std::uint32_t block_bytes(std::uint32_t file_index) const;
  std::uint32_t read_bytes_max() const { return read_bytes_max_; }
  const BlockReaderInfo& info() const { return info_; }
  const BlockReaderMetrics& metrics() const { return metrics_; }

 private:
  BlockReader(std::vector<BlockFile> files, const BlockReaderOptions& options);

  Status start(const BlockReaderOptions& options, IoBackend backend);

  std::vector<BlockFile> files_;
  std::uint32_t block_bytes_ = 0;
  std::uint32_t read_bytes_max_ = 0;
  BlockReaderInfo info_;
  BlockReaderMetrics metrics_;
  BatchList list_;
  std::vector<std::unique_ptr<ReadWorker>> workers_;
};

}  // namespace ple
