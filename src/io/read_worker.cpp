#include "io/read_worker.hpp"

#include <pthread.h>
#include <signal.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/start_thread.hpp"

namespace ple {

namespace {
// Attempts in a row that bring no byte before a read is given up.
constexpr std::uint32_t kAttempts = 100;
}  // namespace

ReadWorker::ReadWorker(std::span<const BlockFile> files, BatchList& list,
                       BlockReaderMetrics& metrics, Options options)
    : files_(files), list_(list), metrics_(metrics), options_(std::move(options)) {}

ReadWorker::~ReadWorker() {
  if (thread_.joinable()) thread_.join();
}

Result<ReadQueueFeatures> ReadWorker::start() {
  PLE_TRY_ASSIGN(thread_, start_thread([this] { run(); }));
  return started_.get_future().get();
}

// Needs memory to prepare alone: reading only lets statuses go without their sentences.
void ReadWorker::run() {
  ::pthread_setname_np(::pthread_self(), "ple-reader");
  // The host program's signals are for its own threads.
  sigset_t all_signals;
  ::sigfillset(&all_signals);
  ::pthread_sigmask(SIG_BLOCK, &all_signals, nullptr);
  const Status prepared = or_out_of_memory([this] { return prepare(); });
  if (!prepared.is_ok()) {
    started_.set_value(prepared);
    return;
  }
  started_.set_value(queue_->features());
  read_until_stopped();
  queue_.reset();
}

Status ReadWorker::prepare() {
  PLE_TRY_ASSIGN(queue_, make_queue());
  const std::uint32_t depth = queue_->depth();
  slots_.resize(depth);
  completions_.resize(depth);
  waiting_.reserve(depth);
  taken_.reserve(depth);
  for (std::uint32_t slot_index = depth; slot_index > 0; --slot_index) {
    free_.push_back(slot_index - 1);
  }
  return {};
}

Result<std::unique_ptr<ReadQueue>> ReadWorker::make_queue() {
  PLE_TRY_ASSIGN(buffers_,
                 AlignedBuffer::allocate(std::size_t{options_.depth} * options_.read_bytes_max));
  const ReadQueueOptions queue_options{
      .files = files_, .buffers = {buffers_.data(), buffers_.bytes()}, .depth = options_.depth};
  std::unique_ptr<ReadQueue> queue;
  if (options_.backend == IoBackend::uring) {
    PLE_TRY_ASSIGN(queue, make_uring_queue(queue_options));
  } else {
    queue = make_pread_queue(queue_options);
  }
  if (options_.wrap_queue) queue = options_.wrap_queue(std::move(queue));
  return queue;
}

void ReadWorker::read_until_stopped() {
  now_ = std::chrono::steady_clock::now();
  bool stopping = false;
  while (true) {
    if (!stopping && !free_.empty()) stopping = !list_.take(*queue_, free_.size(), taken_);
    for (TakenRead& taken : taken_) begin(taken);
    taken_.clear();
    const bool has_waiting = !waiting_.empty();
    push_waiting();
    if (stopping && free_.size() == slots_.size()) return;
    // Every push was refused: no completion would end a wait.
    if (has_waiting && in_queue_count_ == 0) continue;

    std::size_t count = queue_->poll(completions_);
    if (count == 0) {
      list_.share();
      const Result<std::size_t> waited = queue_->wait(completions_);
      if (!waited.is_ok()) return give_up(waited.status());
      count = waited.value();
    }
    now_ = std::chrono::steady_clock::now();
    in_queue_count_ -= count;
    for (std::size_t i = 0; i < count; ++i) settle(completions_[i]);
  }
}

void ReadWorker::begin(TakenRead& taken) {
  const std::uint32_t slot_index = free_.back();
  free_.pop_back();
  PLE_ASSERT(taken.read.bytes <= options_.read_bytes_max);
  slots_[slot_index] = {.batch = std::move(taken.batch),
                        .read = taken.read,
                        .attempts_left = kAttempts,
                        .start = now_};
  waiting_.push_back(slot_index);
}

void ReadWorker::push_waiting() {
  std::size_t pushed_count = 0;
  for (const std::uint32_t slot_index : waiting_) {
    const Slot& slot = slots_[slot_index];
    if (!queue_->push({.slot = slot_index,
                       .file_index = slot.read.file_index,
                       .bytes = slot.read.bytes - slot.done_bytes,
                       .offset = slot.read.offset + slot.done_bytes,
                       .data = data(slot_index) + slot.done_bytes})) {
      break;
    }
    ++pushed_count;
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(pushed_count));
  in_queue_count_ += pushed_count;
  if (in_queue_count_ == 0 && !waiting_.empty()) {
    const std::uint32_t refused = waiting_.back();
    waiting_.pop_back();
    retry(refused, EAGAIN);
  }
}

void ReadWorker::settle(const ReadCompletion& completion) {
  Slot& slot = slots_[completion.slot];
  const BlockRead& read = slot.read;
  const BlockFile& file = files_[read.file_index];
  if (completion.result == -EINTR || completion.result == -EAGAIN) {
    return retry(completion.slot, -completion.result);
  }
  if (completion.result < 0) {
    return finish(completion.slot, 0,
                  error(StatusCode::io_error, "file '{}': reading {} bytes at offset {} failed: {}",
                        file.path(), read.bytes, read.offset, std::strerror(-completion.result)));
  }
  const std::uint32_t data_bytes = slot.done_bytes + static_cast<std::uint32_t>(completion.result);
  const bool at_end = completion.result == 0 || read.offset + data_bytes >= file.bytes();
  if (data_bytes >= read.bytes || at_end) return finish(completion.slot, data_bytes, {});
  // A short read: go on at the last whole block that came.
  const std::uint32_t whole_bytes = data_bytes & ~(file.alignment() - 1);
  if (whole_bytes > slot.done_bytes) slot.attempts_left = kAttempts;
  slot.done_bytes = whole_bytes;
  retry(completion.slot, EIO);
}

void ReadWorker::retry(std::uint32_t slot_index, int error_number) {
  Slot& slot = slots_[slot_index];
  metrics_.retry_count.fetch_add(1, std::memory_order_relaxed);
  if (--slot.attempts_left == 0) {
    return finish(slot_index, 0,
                  error(StatusCode::io_error,
                        "file '{}': reading {} bytes at offset {} failed {} times in a row: {}",
                        files_[slot.read.file_index].path(), slot.read.bytes, slot.read.offset,
                        kAttempts, std::strerror(error_number)));
  }
  waiting_.push_back(slot_index);
}

void ReadWorker::finish(std::uint32_t slot_index, std::uint32_t data_bytes, const Status& status) {
  Slot& slot = slots_[slot_index];
  metrics_.read_ns.record(static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(now_ - slot.start).count()));
  metrics_.read_count.fetch_add(1, std::memory_order_relaxed);
  metrics_.read_bytes.fetch_add(data_bytes, std::memory_order_relaxed);
  const std::span<const std::byte> bytes(data(slot_index), data_bytes);
  if (slot.batch->complete(slot.read, bytes, status)) {
    const Status appended = list_.append(slot.batch);
    if (!appended.is_ok()) slot.batch->abandon(appended);
  }
  slot.batch.reset();
  free_.push_back(slot_index);
}

// The queue failed. The kernel may still write to the buffers of reads in flight, so they are left
// alone until the queue is closed.
void ReadWorker::give_up(const Status& reason) {
  list_.stop(reason);
  for (Slot& slot : slots_) {
    if (slot.batch == nullptr) continue;
    if (slot.batch->complete(slot.read, {}, reason)) slot.batch->abandon(reason);
    slot.batch.reset();
  }
}

std::byte* ReadWorker::data(std::uint32_t slot_index) {
  return buffers_.data() + std::size_t{slot_index} * options_.read_bytes_max;
}

}  // namespace ple
