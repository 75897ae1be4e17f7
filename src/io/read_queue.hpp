#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.hpp"
#include "io/block_file.hpp"

namespace ple {

// Which way reads reach the kernel.
enum class IoBackend : std::int32_t {
  automatic = 0,  // io_uring where the kernel allows it, else pread
  uring = 1,
  pread = 2,
};

// A read to start: bytes at offset of a file into data, which lies in the queue's buffers. The
// caller names it by slot, below the queue's depth.
struct ReadOperation {
  std::uint32_t slot = 0;
  std::uint32_t file_index = 0;
  std::uint32_t bytes = 0;
  std::uint64_t offset = 0;
  std::byte* data = nullptr;
};

// The end of a read: bytes read, or a negative errno.
struct ReadCompletion {
  std::uint32_t slot = 0;
  std::int32_t result = 0;
};

// What a queue was granted by the kernel.
struct ReadQueueFeatures {
  IoBackend backend = IoBackend::pread;
  bool single_issuer = false;     // io_uring: one thread submits
  bool deferred_work = false;     // completions run when this thread asks for them
  bool registered_files = false;  // descriptors looked up once
  bool fixed_buffers = false;     // pages pinned once
};

// Reads in flight of one thread: the system's part of reading, without policy (retries, faults and
// deadlines are the BlockReader's). Made, used and destroyed by that thread; only wake() may be
// called from others.
class ReadQueue {
 public:
  virtual ~ReadQueue() = default;

  virtual ReadQueueFeatures features() const = 0;
  virtual std::uint32_t depth() const = 0;

  // Takes a read; false when the queue is full. It starts here or in wait, and its buffer belongs
  // to the kernel until its completion was returned.
  virtual bool push(const ReadOperation& operation) = 0;

  // Completions that are there already, at the cost of no system call; how many were written.
  virtual std::size_t poll(std::span<ReadCompletion> completions) = 0;

  // Starts what was pushed and blocks until a read completed or wake() was called (also before).
  // Returns how many completions were written, perhaps none; an error means that the queue is of no
  // further use and its buffers must not be reused.
  virtual Result<std::size_t> wait(std::span<ReadCompletion> completions) = 0;

  virtual void wake() = 0;
};

struct ReadQueueOptions {
  std::span<const BlockFile> files;  // outlive the queue
  std::span<std::byte> buffers;      // where all reads go; outlive the queue
  std::uint32_t depth = 0;           // reads in flight
};

// Fails when the kernel refuses io_uring, which a first real read has found out.
Result<std::unique_ptr<ReadQueue>> make_uring_queue(const ReadQueueOptions& options);

// One blocking read at a time; a thread pool is many of these. A read that the page cache can serve
// completes in push.
std::unique_ptr<ReadQueue> make_pread_queue(const ReadQueueOptions& options);

}  // namespace ple
