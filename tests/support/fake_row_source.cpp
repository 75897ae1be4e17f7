#include "support/fake_row_source.hpp"

#include <algorithm>

namespace ple::test {

class FakeRowSource::Batch final : public RowReadBatch {
 public:
  explicit Batch(FakeRowSource& source) : source_(source) {}

  void reset(std::size_t count) {
    arrived_.assign(count, false);
    remaining_ = count;
    failure_ = {};
  }

  bool done() const override {
    const std::scoped_lock lock(source_.mutex_);
    return remaining_ == 0;
  }

  Status wait(std::chrono::nanoseconds deadline) override {
    std::unique_lock lock(source_.mutex_);
    const auto is_done = [&] { return remaining_ == 0; };
    if (source_.delivery_ == Delivery::by_hand) {
      source_.delivered_.wait_for(lock, deadline, is_done);
    } else if (deadline.count() > 0) {
      source_.deliver_batch_locked(this);
    }
    if (is_done()) return failure_;
    std::erase_if(source_.pending_, [&](const Pending& read) { return read.batch == this; });
    const std::size_t late_count = std::exchange(remaining_, 0);
    failure_ = error(StatusCode::deadline, "{} rows came too late", late_count);
    return failure_;
  }

  bool arrived(std::size_t index) const override {
    const std::scoped_lock lock(source_.mutex_);
    return arrived_[index];
  }

 private:
  friend class FakeRowSource;
  FakeRowSource& source_;
  std::vector<bool> arrived_;
  std::size_t remaining_ = 0;
  Status failure_;
};

void FakeRowSource::set_fault(std::function<Fault(RowId)> fault) {
  const std::scoped_lock lock(mutex_);
  fault_ = std::move(fault);
}

std::size_t FakeRowSource::pending_count() const {
  const std::scoped_lock lock(mutex_);
  return pending_.size();
}

std::uint64_t FakeRowSource::rows_submitted() const {
  const std::scoped_lock lock(mutex_);
  return rows_submitted_;
}

bool FakeRowSource::deliver(std::size_t index) {
  const std::scoped_lock lock(mutex_);
  if (pending_.empty()) return false;
  index %= pending_.size();
  if (!deliver_locked(pending_[index])) return false;
  pending_[index] = pending_.back();
  pending_.pop_back();
  return true;
}

void FakeRowSource::deliver_all() {
  const std::scoped_lock lock(mutex_);
  std::erase_if(pending_, [&](const Pending& read) { return deliver_locked(read); });
}

void FakeRowSource::deliver_batch_locked(const Batch* batch) {
  std::erase_if(pending_,
                [&](const Pending& read) { return read.batch == batch && deliver_locked(read); });
}

bool FakeRowSource::deliver_locked(const Pending& pending) {
  const Fault fault = fault_ ? fault_(pending.read.row) : Fault::none;
  if (fault == Fault::hang) return false;
  Batch& batch = *pending.batch;
  if (fault == Fault::fail) {
    if (batch.failure_.is_ok()) {
      batch.failure_ = error(StatusCode::io_error, "row {} cannot be read", pending.read.row);
    }
  } else {
    fill_row(pending.read.row,
             {pending.read.destination, static_cast<std::size_t>(encoding_.row_bytes)});
    batch.arrived_[pending.index] = true;
  }
  --batch.remaining_;
  delivered_.notify_all();
  return true;
}

std::shared_ptr<RowReadBatch> FakeRowSource::make_batch() { return std::make_shared<Batch>(*this); }

Status FakeRowSource::submit(std::span<const RowRead> reads,
                             const std::shared_ptr<RowReadBatch>& batch) {
  const std::scoped_lock lock(mutex_);
  if (std::exchange(fail_next_submit_, false)) {
    return error(StatusCode::io_error, "{} reads refused", reads.size());
  }
  Batch& fake = static_cast<Batch&>(*batch);
  fake.reset(reads.size());
  rows_submitted_ += reads.size();
  for (std::size_t index = 0; index < reads.size(); ++index) {
    std::memset(reads[index].destination, 0xEE, static_cast<std::size_t>(encoding_.row_bytes));
    pending_.push_back({&fake, index, reads[index]});
  }
  if (delivery_ == Delivery::at_submit) deliver_batch_locked(&fake);
  return {};
}

void FakeRowSource::fill_row(RowId row, std::span<std::byte> bytes) {
  std::uint32_t word = row * 2654435761U + 12345;
  for (std::byte& byte : bytes) {
    word = word * 1664525 + 1013904223;
    byte = static_cast<std::byte>(word >> 24);
  }
}

bool FakeRowSource::is_row(const std::byte* slot, RowId row) const {
  std::vector<std::byte> wanted(static_cast<std::size_t>(encoding_.row_bytes));
  fill_row(row, wanted);
  return std::memcmp(slot, wanted.data(), wanted.size()) == 0;
}

}  // namespace ple::test
