#include "support/fake_cuda.hpp"

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "support/fake_cuda_stream.hpp"

namespace ple::test {

namespace {

std::atomic<std::int64_t> calls_until_failure{-1};
std::atomic<std::int64_t> call_count{0};
std::atomic<std::int64_t> allocation_count{0};
std::atomic<bool> is_device_used[2];

thread_local int current_device = 0;
thread_local cudaStreamCaptureMode capture_mode = cudaStreamCaptureModeGlobal;

constexpr std::size_t kAllocationAlignment = 1024;

}  // namespace

void fail_cuda_call(std::int64_t nth) {
  call_count = 0;
  calls_until_failure = nth;
  for (auto& is_used : is_device_used) is_used = false;
}
bool cuda_device_was_used(int device) { return is_device_used[device]; }

std::int64_t cuda_call_count() { return call_count; }
std::int64_t cuda_allocation_count() { return allocation_count; }

void use_device() { is_device_used[current_device] = true; }

bool this_call_fails() {
  ++call_count;
  return calls_until_failure >= 0 && calls_until_failure-- == 0;
}

FakeDevice& FakeDevice::get() {
  static FakeDevice& device = *new FakeDevice;  // outlives every owner
  return device;
}

FakeDevice::FakeDevice() { streams_.push_back(std::make_unique<FakeStream>()); }

FakeStream& FakeDevice::stream(cudaStream_t handle) {
  return handle == nullptr ? *streams_.front() : *reinterpret_cast<FakeStream*>(handle);
}

FakeStream& FakeDevice::make_stream() {
  if (!free_streams_.empty()) {
    FakeStream& stream = *free_streams_.back();
    free_streams_.pop_back();
    return stream;
  }
  streams_.push_back(std::make_unique<FakeStream>());
  return *streams_.back();
}

bool FakeDevice::step(FakeStream& stream) {
  if (stream.queue.empty() || !stream.queue.front()()) return false;
  stream.queue.pop_front();
  ++stream.done_count;
  return true;
}

void FakeDevice::run_some() {
  FakeStream& stream = *streams_[random_() % streams_.size()];
  for (std::uint64_t steps = random_() % 4; steps > 0; --steps) step(stream);
}

void FakeDevice::drain(std::unique_lock<std::mutex>& lock, FakeStream& stream,
                       std::uint64_t count) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (stream.done_count < count) {
    if (step(stream)) continue;
    for (const auto& other : streams_) step(*other);
    if (std::chrono::steady_clock::now() > deadline) {
      std::fprintf(stderr, "fake CUDA: a stream waits for what never comes\n");
      std::abort();
    }
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

void FakeDevice::drain_all(std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    drain(lock, *streams_[i], streams_[i]->end_count());
  }
}

cudaError_t FakeDevice::enqueue(cudaStream_t handle, std::function<bool()> operation) {
  const std::scoped_lock lock(mutex_);
  FakeStream& to = stream(handle);
  if (to.is_capturing) {
    to.captured.operations.push_back(std::move(operation));
  } else {
    to.queue.push_back(std::move(operation));
    if (random_() % 4 == 0) run_some();
  }
  return cudaSuccess;
}

void FakeDevice::remember(const void* data, std::size_t bytes, cudaMemoryType type) {
  const std::scoped_lock lock(mutex_);
  allocations_[static_cast<const std::byte*>(data)] = {bytes, type, current_device};
  ++allocation_count;
}

void FakeDevice::forget(const void* data) {
  const std::scoped_lock lock(mutex_);
  allocations_.erase(static_cast<const std::byte*>(data));
  --allocation_count;
}

std::size_t FakeDevice::device_bytes() {
  const std::scoped_lock lock(mutex_);
  std::size_t bytes = 0;
  for (const auto& [address, allocation] : allocations_) {
    if (allocation.type == cudaMemoryTypeDevice) bytes += allocation.bytes;
  }
  return bytes;
}

FakeAllocation FakeDevice::find(const void* address) {
  const std::scoped_lock lock(mutex_);
  const auto* byte = static_cast<const std::byte*>(address);
  auto after = allocations_.upper_bound(byte);
  if (after == allocations_.begin()) return {};
  --after;
  return byte < after->first + after->second.bytes ? after->second : FakeAllocation{};
}

}  // namespace ple::test

using ple::test::event_of;
using ple::test::FakeDevice;
using ple::test::FakeEvent;
using ple::test::FakeStream;
using ple::test::this_call_fails;

namespace {

// A call that would wait breaks a capture of its own stream.
bool breaks_capture(FakeStream& stream) {
  if (stream.is_capturing) stream.is_capture_broken = true;
  return stream.is_capturing;
}

cudaError_t allocate(void** data, std::size_t bytes, cudaMemoryType type) {
  FAIL_IF_ASKED(cudaErrorMemoryAllocation);
  const std::size_t rounded = (bytes + ple::test::kAllocationAlignment) /
                              ple::test::kAllocationAlignment * ple::test::kAllocationAlignment;
  *data = std::aligned_alloc(ple::test::kAllocationAlignment, rounded);
  std::memset(*data, 0xFF, rounded);
  FakeDevice::get().remember(*data, bytes, type);
  return cudaSuccess;
}

cudaError_t release(void* data) {
  if (data == nullptr) return cudaSuccess;
  ple::test::use_device();
  FakeDevice::get().synchronize_all();
  FakeDevice::get().forget(data);
  std::free(data);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  if (this_call_fails()) return cudaErrorUnknown;
  std::memset(properties, 0, sizeof(*properties));
  std::snprintf(properties->name, sizeof(properties->name), "none");
  properties->major = 9;
  properties->multiProcessorCount = 2;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  if (this_call_fails()) return cudaErrorUnknown;
  *device = ple::test::current_device;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
  ple::test::current_device = device;
  return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, ple::test::capture_mode);
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* most) {
  *least = 0;
  *most = -5;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t) { return "asked to fail"; }
const char* cudaGetErrorName(cudaError_t) { return "fake"; }

cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  return allocate(data, bytes, cudaMemoryTypeDevice);
}
cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned) {
  return allocate(data, bytes, cudaMemoryTypeHost);
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = std::size_t{1} << 40;
  *free = *total - FakeDevice::get().device_bytes();
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) { return release(data); }
cudaError_t cudaFreeHost(void* data) { return release(data); }

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const auto found = FakeDevice::get().find(address);
  *attributes = {};
  attributes->type = found.type;
  attributes->device = found.device;
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                            cudaStream_t stream) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  FakeDevice& device = FakeDevice::get();
  const bool from_pageable = device.find(from).type == cudaMemoryTypeUnregistered;
  const bool to_pageable = device.find(to).type == cudaMemoryTypeUnregistered;
  bool is_capturing = false;
  {
    const std::scoped_lock lock(device.mutex());
    is_capturing = device.stream(stream).is_capturing;
  }
  if (from_pageable && !is_capturing) {
    const auto* bytes_now = static_cast<const std::byte*>(from);
    auto copy = std::make_shared<std::vector<std::byte>>(bytes_now, bytes_now + bytes);
    device.enqueue(stream, [=] { return std::memcpy(to, copy->data(), bytes), true; });
  } else {
    device.enqueue(stream, [=] { return std::memcpy(to, from, bytes), true; });
  }
  if (to_pageable && !is_capturing) device.synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t copied = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  FakeDevice::get().synchronize(nullptr);
  return copied;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return FakeDevice::get().enqueue(stream, [=] { return std::memset(to, value, bytes), true; });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  *stream = reinterpret_cast<cudaStream_t>(&FakeDevice::get().make_stream());
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  ple::test::use_device();
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeDevice::get().give_back(FakeDevice::get().stream(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  {
    const std::scoped_lock lock(FakeDevice::get().mutex());
    if (breaks_capture(FakeDevice::get().stream(stream))) return cudaErrorStreamCaptureUnsupported;
  }
  FakeDevice::get().synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  FAIL_IF_ASKED(cudaErrorUnknown);
  FakeDevice::get().synchronize_all();
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  *event = reinterpret_cast<cudaEvent_t>(new FakeEvent);
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  ple::test::use_device();
  delete &event_of(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeStream& stream = FakeDevice::get().stream(handle);
  if (breaks_capture(stream)) return cudaErrorStreamCaptureUnsupported;
  event_of(event) = {&stream, stream.end_count()};
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  {
    const std::scoped_lock lock(FakeDevice::get().mutex());
    if (breaks_capture(FakeDevice::get().stream(stream))) return cudaErrorStreamCaptureIsolation;
  }
  const FakeEvent seen = event_of(event);
  return FakeDevice::get().enqueue(stream, [seen] { return seen.has_passed(); });
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  FakeDevice::get().run_some();
  return event_of(event).has_passed() ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  FakeDevice::get().wait(event_of(event));
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  FAIL_IF_ASKED(cudaErrorUnknown);
  const std::scoped_lock lock(FakeDevice::get().mutex());
  *status = FakeDevice::get().stream(stream).is_capturing ? cudaStreamCaptureStatusActive
                                                          : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}

}  // extern "C"
