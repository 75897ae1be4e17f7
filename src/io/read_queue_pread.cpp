#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <semaphore>

#include "io/read_queue.hpp"

namespace ple {

namespace {

class PreadQueue final : public ReadQueue {
 public:
  explicit PreadQueue(std::span<const BlockFile> files) : files_(files) {}

  ReadQueueFeatures features() const override { return {.backend = IoBackend::pread}; }
  std::uint32_t depth() const override { return 1; }

  bool push(const ReadOperation& operation) override {
    if (pending_ || completed_) return false;
    const BlockFile& file = files_[operation.file_index];
    if (!file.is_direct()) {
      const iovec target{operation.data, operation.bytes};
      const ssize_t result =
          ::preadv2(file.fd(), &target, 1, static_cast<off_t>(operation.offset), RWF_NOWAIT);
      if (result >= 0) {
        completed_ = ReadCompletion{operation.slot, static_cast<std::int32_t>(result)};
        return true;
      }
    }
    pending_ = operation;
    return true;
  }

  std::size_t poll(std::span<ReadCompletion> completions) override {
    if (!completed_) return 0;
    completions[0] = *completed_;
    completed_.reset();
    return 1;
  }

  Result<std::size_t> wait(std::span<ReadCompletion> completions) override {
    if (pending_) {
      const ssize_t result = ::pread(files_[pending_->file_index].fd(), pending_->data,
                                     pending_->bytes, static_cast<off_t>(pending_->offset));
      completed_ =
          ReadCompletion{pending_->slot, static_cast<std::int32_t>(result < 0 ? -errno : result)};
      pending_.reset();
    }
    if (!completed_) woken_.acquire();
    return poll(completions);
  }

  void wake() override { woken_.release(); }

 private:
  std::span<const BlockFile> files_;
  std::optional<ReadOperation> pending_;
  std::optional<ReadCompletion> completed_;
  std::counting_semaphore<> woken_{0};
};

}  // namespace

std::unique_ptr<ReadQueue> make_pread_queue(const ReadQueueOptions& options) {
  return std::make_unique<PreadQueue>(options.files);
}

}  // namespace ple
