#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "io/block_batch.hpp"
#include "io/read_queue.hpp"

namespace ple {

// A read that a worker has taken on, and the batch it belongs to.
struct TakenRead {
  std::shared_ptr<BlockBatch> batch;
  BlockRead read;
};

// The batches that still have reads to start, and the workers that have nothing to do. Batches take
// turns, so that a small one does not wait for the whole of a large one. Thread-safe.
class BatchList {
 public:
  // Makes room for as many workers, so that none of them needs memory in take.
  void reserve(std::size_t worker_count);

  // Adds a batch and wakes a worker. The batch must not be on a list. An error when stopped.
  Status append(std::shared_ptr<BlockBatch> batch);

  // Appends up to count reads to taken. With fewer than count the worker is noted as idle, to be
  // woken through its queue until it calls again. False when stopped.
  bool take(ReadQueue& worker, std::size_t count, std::vector<TakenRead>& taken);

  // For a worker that is about to block: wakes others when there are reads left to start. Two, so
  // that many workers are awake soon.
  void share();

  // Abandons every batch and refuses new ones; take() returns false from now on.
  void stop(const Status& reason);

 private:
  void push_back(std::shared_ptr<BlockBatch> batch) PLE_REQUIRES(mutex_);
  std::shared_ptr<BlockBatch> pop_front() PLE_REQUIRES(mutex_);
  void wake_one() PLE_REQUIRES(mutex_);

  Mutex mutex_;
  // Singly linked through next_batch_, in the order of turns.
  std::shared_ptr<BlockBatch> first_ PLE_GUARDED_BY(mutex_);
  BlockBatch* last_ PLE_GUARDED_BY(mutex_) = nullptr;
  std::vector<ReadQueue*> idle_ PLE_GUARDED_BY(mutex_);
  bool stopped_ PLE_GUARDED_BY(mutex_) = false;
  Status stop_reason_ PLE_GUARDED_BY(mutex_);
};

}  // namespace ple
