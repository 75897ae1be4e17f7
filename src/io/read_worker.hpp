#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/latency_histogram.hpp"
#include "base/status.hpp"
#include "io/batch_list.hpp"
#include "io/block_file.hpp"
#include "io/read_queue.hpp"

namespace ple {

struct BlockReaderMetrics {
  std::atomic<std::uint64_t> read_count{0};
  std::atomic<std::uint64_t> read_bytes{0};
  std::atomic<std::uint64_t> retry_count{0};
  LatencyHistogram read_ns;  // from the start of a read to its end, retries included
};

// A thread that takes reads off the list and sees each of them to its end, on a queue of its own.
class ReadWorker {
 public:
  struct Options {
    IoBackend backend = IoBackend::pread;  // not automatic
    std::uint32_t depth = 1;               // reads in flight
    std::uint32_t read_bytes_max = 0;      // a multiple of the page
    std::function<std::unique_ptr<ReadQueue>(std::unique_ptr<ReadQueue>)> wrap_queue;
  };

  // Files, list and metrics outlive the worker.
  ReadWorker(std::span<const BlockFile> files, BatchList& list, BlockReaderMetrics& metrics,
             Options options);
  // The list must be stopped. Blocks until the reads in flight are over.
  ~ReadWorker();

  // Starts the thread, and blocks until it is ready or says why it cannot be. Called once.
  Result<ReadQueueFeatures> start();

 private:
  // A read in flight and its part of the buffer.
  struct Slot {
    std::shared_ptr<BlockBatch> batch;
    BlockRead read;
    std::uint32_t done_bytes = 0;
    std::uint32_t attempts_left = 0;  // without progress
    std::chrono::steady_clock::time_point start;
  };

  void run();
  Status prepare();
  Result<std::unique_ptr<ReadQueue>> make_queue();
  void read_until_stopped();
  void begin(TakenRead& taken);
  void push_waiting();
  void settle(const ReadCompletion& completion);
  void retry(std::uint32_t slot_index, int error_number);
  void finish(std::uint32_t slot_index, std::uint32_t data_bytes, const Status& status);
  void give_up(const Status& reason);
  std::byte* data(std::uint32_t slot_index);

  std::span<const BlockFile> files_;
  BatchList& list_;
  BlockReaderMetrics& metrics_;
  Options options_;
  std::promise<Result<ReadQueueFeatures>> started_;

  // Of the thread alone. A slot is free, or waiting to be pushed, or in the queue.
  AlignedBuffer buffers_;
  std::unique_ptr<ReadQueue> queue_;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> waiting_;
  std::size_t in_queue_count_ = 0;
  std::chrono::steady_clock::time_point now_;  // once a round: reads begin and end in rounds
  std::vector<TakenRead> taken_;
  std::vector<ReadCompletion> completions_;

  std::thread thread_;
};

}  // namespace ple
