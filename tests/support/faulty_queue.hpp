#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.hpp"
#include "io/read_queue.hpp"

namespace ple::test {

// What becomes of a read instead of its usual way.
struct Fault {
  enum class Kind { none, fail, shorten, hold, refuse, break_queue };

  static Fault none() { return {}; }
  // Completes with an error, without a byte read.
  static Fault fail(int error_number) { return {Kind::fail, error_number, 0}; }
  // Reads fewer bytes than asked.
  static Fault shorten(std::uint32_t bytes) { return {Kind::shorten, 0, bytes}; }
  // Does not complete until FaultPlan::release().
  static Fault hold() { return {Kind::hold, 0, 0}; }
  // The queue says that it is full.
  static Fault refuse() { return {Kind::refuse, 0, 0}; }
  // The queue takes the read and is of no use from then on.
  static Fault break_queue() { return {Kind::break_queue, 0, 0}; }

  Kind kind = Kind::none;
  int error_number = 0;
  std::uint32_t bytes = 0;
};

// Decides about every read of a reader: give wrap() as its wrap_queue. Thread-safe; outlives the
// reader.
class FaultPlan {
 public:
  using Rule = std::function<Fault(const ReadOperation&)>;

  // The rule is called for one read at a time, on the thread that reads.
  void set_rule(Rule rule) {
    MutexLock lock(mutex_);
    rule_ = std::move(rule);
  }

  // Blocks until count reads are held.
  void wait_held(std::size_t count) {
    MutexLock lock(mutex_);
    while (held_.size() < count) held_changed_.wait(mutex_);
  }

  // Lets the held reads go their usual way.
  void release() {
    MutexLock lock(mutex_);
    for (auto& [queue, operation] : held_) queue->let_go(operation);
    held_.clear();
  }

  std::function<std::unique_ptr<ReadQueue>(std::unique_ptr<ReadQueue>)> wrap() {
    return [this](std::unique_ptr<ReadQueue> inner) {
      return std::make_unique<Queue>(*this, std::move(inner));
    };
  }

 private:
  class Queue final : public ReadQueue {
   public:
    Queue(FaultPlan& plan, std::unique_ptr<ReadQueue> inner)
        : plan_(plan), inner_(std::move(inner)) {
      ready_.reserve(inner_->depth());
    }

    ReadQueueFeatures features() const override { return inner_->features(); }
    std::uint32_t depth() const override { return inner_->depth(); }

    bool push(const ReadOperation& operation) override {
      Fault fault = plan_.judge(*this, operation);
      ReadOperation actual = operation;
      switch (fault.kind) {
        case Fault::Kind::refuse:
          return false;
        case Fault::Kind::hold:
          return true;
        case Fault::Kind::fail:
          ready_.push_back({operation.slot, -fault.error_number});
          return true;
        case Fault::Kind::shorten:
          actual.bytes = fault.bytes;
          break;
        case Fault::Kind::break_queue:
          is_broken_ = true;
          return true;
        case Fault::Kind::none:
          break;
      }
      return inner_->push(actual);
    }

    std::size_t poll(std::span<ReadCompletion> completions) override {
      if (is_broken_) return 0;
      push_let_go();
      std::size_t count = 0;
      while (count < completions.size() && !ready_.empty()) {
        completions[count++] = ready_.back();
        ready_.pop_back();
      }
      return count + inner_->poll(completions.subspan(count));
    }

    Result<std::size_t> wait(std::span<ReadCompletion> completions) override {
      if (is_broken_) return Status(StatusCode::io_error, "the queue is broken");
      const std::size_t count = poll(completions);
      if (count > 0) return count;
      return inner_->wait(completions);
    }

    void wake() override { inner_->wake(); }

    // From the test's thread, under the plan's mutex.
    void let_go(const ReadOperation& operation) {
      let_go_.push_back(operation);
      inner_->wake();
    }

   private:
    void push_let_go() {
      MutexLock lock(plan_.mutex_);
      while (!let_go_.empty() && inner_->push(let_go_.back())) let_go_.pop_back();
    }

    FaultPlan& plan_;
    std::unique_ptr<ReadQueue> inner_;
    bool is_broken_ = false;
    std::vector<ReadCompletion> ready_;
    std::vector<ReadOperation> let_go_;  // guarded by the plan's mutex
  };

  Fault judge(Queue& queue, const ReadOperation& operation) {
    MutexLock lock(mutex_);
    const Fault fault = rule_ ? rule_(operation) : Fault::none();
    if (fault.kind == Fault::Kind::hold) {
      held_.emplace_back(&queue, operation);
      held_changed_.notify_all();
    }
    return fault;
  }

  Mutex mutex_;
  ConditionVariable held_changed_;
  Rule rule_ PLE_GUARDED_BY(mutex_);
  std::vector<std::pair<Queue*, ReadOperation>> held_ PLE_GUARDED_BY(mutex_);
};

}  // namespace ple::test
