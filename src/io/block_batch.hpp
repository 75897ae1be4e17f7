#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"

namespace ple {

// A stretch of a file to read. offset and bytes are multiples of the reader's block_bytes for that
// file; the last block may reach past the end of the file.
struct BlockRead {
  std::uint32_t index = 0;  // the batch's name for it
  std::uint32_t file_index = 0;
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

// A batch of reads and what becomes of their bytes. Shared by its owner and a BlockReader, which
// calls the private functions on its threads, several at a time. They must be short and must not
// call the reader.
class BlockBatch {
 public:
  virtual ~BlockBatch() = default;

 private:
  friend class BatchList;
  friend class ReadWorker;

  // Gives the next read to start; false when there is none (any more), which takes the batch off
  // the reader's list.
  virtual bool next(BlockRead& read) = 0;

  // A read that next() gave is over. data holds what came and is valid during the call: all bytes,
  // or fewer where the file ends, or none where status is not ok. Returns true when next() has
  // reads to give again after it returned false.
  virtual bool complete(const BlockRead& read, std::span<const std::byte> data,
                        const Status& status) = 0;

  // The reader stops: next() will not be called again.
  virtual void abandon(const Status& reason) = 0;

  std::shared_ptr<BlockBatch> next_batch_;  // on a reader's list, guarded by its mutex
};

}  // namespace ple
