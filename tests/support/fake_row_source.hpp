#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "table/row_source.hpp"

namespace ple::test {

// Rows made from their ids, delivered when the test says so. Thread-safe.
//
// A destination is scribbled over at submit: whoever still reads the slot's old row notices.
class FakeRowSource final : public RowSource {
 public:
  enum class Delivery {
    at_submit,  // before submit returns
    at_wait,    // when somebody waits for the batch
    by_hand,    // by deliver
  };
  enum class Fault { none, fail, hang };

  FakeRowSource(std::uint64_t row_count, std::int32_t row_bytes)
      : row_count_(row_count),
        encoding_{.format = RowFormat::bf16, .dim = row_bytes / 2, .row_bytes = row_bytes} {}

  void set_delivery(Delivery delivery) { delivery_ = delivery; }
  // Asked for each row when it is delivered. A row that hangs is never delivered.
  void set_fault(std::function<Fault(RowId)> fault);
  void fail_next_submit() { fail_next_submit_ = true; }
  void accept_submits() { fail_next_submit_ = false; }

  std::size_t pending_count() const;
  // Delivers the pending read at index (modulo their count); false if there is none or it hangs.
  bool deliver(std::size_t index);
  void deliver_all();
  std::uint64_t rows_submitted() const;

  static void fill_row(RowId row, std::span<std::byte> bytes);
  bool is_row(const std::byte* slot, RowId row) const;

  std::uint64_t row_count() const override { return row_count_; }
  RowEncoding encoding() const override { return encoding_; }
  std::shared_ptr<RowReadBatch> make_batch() override;
  Status submit(std::span<const RowRead> reads,
                const std::shared_ptr<RowReadBatch>& batch) override;

 private:
  class Batch;
  struct Pending {
    Batch* batch = nullptr;
    std::size_t index = 0;
    RowRead read;
  };

  bool deliver_locked(const Pending& pending);
  void deliver_batch_locked(const Batch* batch);

  const std::uint64_t row_count_;
  const RowEncoding encoding_;
  Delivery delivery_ = Delivery::at_submit;

  mutable std::mutex mutex_;
  std::condition_variable delivered_;
  std::function<Fault(RowId)> fault_;
  std::vector<Pending> pending_;
  std::uint64_t rows_submitted_ = 0;
  bool fail_next_submit_ = false;
};

}  // namespace ple::test
