#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "io/read_queue.hpp"

namespace ple {

namespace {

// The user data of the poll that wake() ends; slots are smaller.
constexpr std::uint64_t kWakeTag = UINT64_MAX;

class UringQueue final : public ReadQueue {
 public:
  explicit UringQueue(const ReadQueueOptions& options)
      : files_(options.files), buffers_(options.buffers), depth_(options.depth) {}

  ~UringQueue() override {
    if (ring_is_open_) ::io_uring_queue_exit(&ring_);
  }

  // Takes the best the kernel grants, then proves it with a read.
  Status start() {
    wake_fd_ = UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wake_fd_.is_open()) return failure("eventfd", errno);
    PLE_TRY(open_ring());
    register_files();
    register_buffers();
    PLE_TRY(read_once());
    return arm_wake();
  }

  ReadQueueFeatures features() const override { return features_; }
  std::uint32_t depth() const override { return depth_; }

  bool push(const ReadOperation& operation) override {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return false;
    const int fd = features_.registered_files ? static_cast<int>(operation.file_index)
                                              : files_[operation.file_index].fd();
    if (features_.fixed_buffers) {
      ::io_uring_prep_read_fixed(entry, fd, operation.data, operation.bytes, operation.offset, 0);
    } else {
      ::io_uring_prep_read(entry, fd, operation.data, operation.bytes, operation.offset);
    }
    if (features_.registered_files) entry->flags |= IOSQE_FIXED_FILE;
    ::io_uring_sqe_set_data64(entry, operation.slot);
    return true;
  }

  std::size_t poll(std::span<ReadCompletion> completions) override {
    std::size_t count = 0;
    io_uring_cqe* completion = nullptr;
    while (count < completions.size() && ::io_uring_peek_cqe(&ring_, &completion) == 0) {
      if (completion->user_data == kWakeTag) {
        // Drained before the caller looks for work: a wake after that ends the next wait.
        eventfd_t wake_count = 0;
        ::eventfd_read(wake_fd_.get(), &wake_count);
        wake_is_armed_ = false;
      } else {
        completions[count++] = {static_cast<std::uint32_t>(completion->user_data), completion->res};
      }
      ::io_uring_cqe_seen(&ring_, completion);
    }
    return count;
  }

  Result<std::size_t> wait(std::span<ReadCompletion> completions) override {
    if (!wake_is_armed_) PLE_TRY(arm_wake());
    const int submitted = ::io_uring_submit_and_wait(&ring_, 1);
    // These leave what was pushed in the ring, and the next wait submits it.
    const bool again = submitted == -EINTR || submitted == -EAGAIN || submitted == -EBUSY;
    if (submitted < 0 && !again) return failure("io_uring_enter", -submitted);
    return poll(completions);
  }

  void wake() override { ::eventfd_write(wake_fd_.get(), 1); }

 private:
  static Status failure(const char* what, int error_number) {
    return error(StatusCode::io_error, "io_uring: {}: {}", what, std::strerror(error_number));
  }

  Status open_ring() {
    struct Rung {
      unsigned flags;
      bool single_issuer;
      bool deferred_work;
    };
    constexpr Rung kLadder[] = {
        {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, true, true},  // 6.1
        {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, true, false},  // 6.0
        {IORING_SETUP_COOP_TASKRUN, false, false},                              // 5.19
        {0, false, false},
    };
    int result = 0;
    for (const Rung& rung : kLadder) {
      // Two entries more than reads: the wake poll, and one so that a full queue is never full.
      result = ::io_uring_queue_init(depth_ + 2, &ring_, rung.flags);
      if (result == 0) {
        ring_is_open_ = true;
        features_ = {.backend = IoBackend::uring,
                     .single_issuer = rung.single_issuer,
                     .deferred_work = rung.deferred_work};
        return {};
      }
      if (result != -EINVAL) break;
    }
    return failure("io_uring_setup", -result);
  }

  void register_files() {
    std::vector<int> fds;
    for (const BlockFile& file : files_) fds.push_back(file.fd());
    features_.registered_files =
        ::io_uring_register_files(&ring_, fds.data(), static_cast<unsigned>(fds.size())) == 0;
  }

  void register_buffers() {
    const iovec all{buffers_.data(), buffers_.size()};
    features_.fixed_buffers = ::io_uring_register_buffers(&ring_, &all, 1) == 0;
  }

  Status read_once() {
    const ReadOperation probe{.bytes = files_[0].alignment(), .data = buffers_.data()};
    if (!push(probe)) return failure("first read", EBUSY);
    int submitted = 0;
    do {
      submitted = ::io_uring_submit_and_wait(&ring_, 1);
    } while (submitted == -EINTR || submitted == -EAGAIN);
    if (submitted < 0) return failure("io_uring_enter", -submitted);
    ReadCompletion completion{.result = -EIO};
    poll({&completion, 1});
    if (completion.result < 0) return failure("first read", -completion.result);
    return {};
  }

  Status arm_wake() {
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return failure("no entry for the wake poll", EBUSY);
    ::io_uring_prep_poll_add(entry, wake_fd_.get(), POLLIN);
    ::io_uring_sqe_set_data64(entry, kWakeTag);
    wake_is_armed_ = true;
    return {};
  }

  std::span<const BlockFile> files_;
  std::span<std::byte> buffers_;
  std::uint32_t depth_;
  ReadQueueFeatures features_;
  UniqueFd wake_fd_;
  bool wake_is_armed_ = false;
  bool ring_is_open_ = false;
  io_uring ring_ = {};
};

}  // namespace

Result<std::unique_ptr<ReadQueue>> make_uring_queue(const ReadQueueOptions& options) {
  auto queue = std::make_unique<UringQueue>(options);
  PLE_TRY(queue->start());
  return std::unique_ptr<ReadQueue>(std::move(queue));
}

}  // namespace ple
