#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.hpp"

namespace ple::kernels {

// A flag in pinned memory that a stream waits for: 0 until somebody raises it to 1. Both only
// enqueue and are legal under capture.

// What follows in the stream starts after the flag was raised, by the host or another stream, and
// sees all that was written before.
Status wait_flag_cuda(const std::uint32_t* flag, cudaStream_t stream);

// Raises the flag after what is ahead in the stream.
Status raise_flag_cuda(std::uint32_t* flag, cudaStream_t stream);

}  // namespace ple::kernels
