#pragma once

#include <cstdint>

// A CUDA runtime without a device, in place of the real one: what is enqueued on a stream runs
// later, in the order that streams, events and flags allow and otherwise at random, and computes
// with the CPU's operators. It defines the calls of the runtime that the library and its tests use,
// and the launchers of src/kernels.

namespace ple::test {

// From now on the call number `nth` (from 0) of those that can fail reports an error and does
// nothing; negative: none.
void fail_cuda_call(std::int64_t nth);

// The calls that could have failed since.
std::int64_t cuda_call_count();

// Allocations of device and pinned memory that are not freed.
std::int64_t cuda_allocation_count();

// From now on launching a graph returns when it has ended, as under CUDA_LAUNCH_BLOCKING.
void block_cuda_launches(bool are_blocking);

// Whether a call since fail_cuda_call made this device's context, as most do while it is current.
bool cuda_device_was_used(int device);

}  // namespace ple::test
