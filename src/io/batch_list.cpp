#include "io/batch_list.hpp"

#include <utility>

namespace ple {

namespace {
// Reads of one batch before the next batch's turn.
constexpr std::size_t kTurnReads = 16;
}  // namespace

void BatchList::reserve(std::size_t worker_count) {
  MutexLock lock(mutex_);
  idle_.reserve(worker_count);
}

Status BatchList::append(std::shared_ptr<BlockBatch> batch) {
  MutexLock lock(mutex_);
  if (stopped_) return stop_reason_;
  push_back(std::move(batch));
  wake_one();
  return {};
}

bool BatchList::take(ReadQueue& worker, std::size_t count, std::vector<TakenRead>& taken) {
  MutexLock lock(mutex_);
  std::erase(idle_, &worker);
  if (stopped_) return false;
  while (count > 0 && first_ != nullptr) {
    std::shared_ptr<BlockBatch> batch = pop_front();
    bool has_more = true;
    for (std::size_t turn = 0; turn < kTurnReads && count > 0 && has_more; ++turn) {
      BlockRead read;
      has_more = batch->next(read);
      if (!has_more) break;
      taken.push_back({batch, read});
      --count;
    }
    if (has_more) push_back(std::move(batch));
  }
  if (count > 0) idle_.push_back(&worker);
  return true;
}

void BatchList::share() {
  MutexLock lock(mutex_);
  if (first_ == nullptr) return;
  wake_one();
  wake_one();
}

void BatchList::stop(const Status& reason) {
  MutexLock lock(mutex_);
  if (stopped_) return;
  stopped_ = true;
  stop_reason_ = reason;
  while (first_ != nullptr) pop_front()->abandon(reason);
  while (!idle_.empty()) wake_one();
}

void BatchList::push_back(std::shared_ptr<BlockBatch> batch) {
  std::shared_ptr<BlockBatch>& end = first_ == nullptr ? first_ : last_->next_batch_;
  end = std::move(batch);
  last_ = end.get();
}

std::shared_ptr<BlockBatch> BatchList::pop_front() {
  std::shared_ptr<BlockBatch> batch = std::move(first_);
  first_ = std::move(batch->next_batch_);
  return batch;
}

// Under the mutex, because an idle worker may go away as soon as it is free.
void BatchList::wake_one() {
  if (idle_.empty()) return;
  idle_.back()->wake();
  idle_.pop_back();
}

}  // namespace ple
