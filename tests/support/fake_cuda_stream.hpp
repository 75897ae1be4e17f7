#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

// The inside of the fake CUDA runtime: streams as queues.

namespace ple::test {

struct FakeStream;

// What a stream held when it was recorded.
struct FakeEvent {
  const FakeStream* stream = nullptr;
  std::uint64_t count = 0;
  bool has_passed() const;
};

// Recorded when the launch of a graph enqueues the operation with this index.
struct FakeGraphEvent {
  std::size_t operation_index = 0;
  FakeEvent* event = nullptr;
};

struct FakeGraph {
  std::vector<std::function<bool()>> operations;
  std::vector<FakeGraphEvent> events;
};

// An operation returns false as long as it has to wait.
struct FakeStream {
  std::deque<std::function<bool()>> queue;
  std::uint64_t done_count = 0;
  bool is_capturing = false;
  bool is_capture_broken = false;
  FakeGraph captured;

  std::uint64_t end_count() const { return done_count + queue.size(); }
};

inline bool FakeEvent::has_passed() const {
  return stream == nullptr || stream->done_count >= count;
}

struct FakeAllocation {
  std::size_t bytes = 0;
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = 0;
};

class FakeDevice {
 public:
  static FakeDevice& get();
  std::mutex& mutex() { return mutex_; }

  // With the mutex held.
  FakeStream& stream(cudaStream_t handle);
  FakeStream& make_stream();
  void give_back(FakeStream& stream) { free_streams_.push_back(&stream); }
  void run_some();

  // Without.
  cudaError_t enqueue(cudaStream_t handle, std::function<bool()> operation);
  void synchronize(cudaStream_t handle) {
    std::unique_lock lock(mutex_);
    drain(lock, stream(handle), stream(handle).end_count());
  }
  void synchronize_all() {
    std::unique_lock lock(mutex_);
    drain_all(lock);
  }
  void wait(FakeEvent event) {
    std::unique_lock lock(mutex_);
    if (event.stream != nullptr) {
      drain(lock, *const_cast<FakeStream*>(event.stream), event.count);
    }
  }
  void remember(const void* data, std::size_t bytes, cudaMemoryType type);
  void forget(const void* data);
  FakeAllocation find(const void* address);
  std::size_t device_bytes();

 private:
  FakeDevice();
  bool step(FakeStream& stream);
  void drain(std::unique_lock<std::mutex>& lock, FakeStream& stream, std::uint64_t count);
  void drain_all(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::vector<std::unique_ptr<FakeStream>> streams_;  // the first is the default stream
  std::vector<FakeStream*> free_streams_;             // destroyed; what they hold still runs
  std::map<const std::byte*, FakeAllocation> allocations_;
  std::mt19937_64 random_;
};

// Whether this call shall report an error.
bool this_call_fails();

// For calls that make the current device's context.
void use_device();

inline FakeEvent& event_of(cudaEvent_t event) { return *reinterpret_cast<FakeEvent*>(event); }

// At the beginning of a call that uses the device.
#define FAIL_IF_ASKED(code) \
  ple::test::use_device();  \
  if (ple::test::this_call_fails()) return code

}  // namespace ple::test
