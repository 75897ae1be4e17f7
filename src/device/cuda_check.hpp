#pragma once

#include <cuda_runtime_api.h>

#include "base/status.hpp"

namespace ple {

// The Status of a CUDA call; call is its text. Out of memory keeps its own code.
Status cuda_status(cudaError_t code, const char* call);

}  // namespace ple

// Returns the Status of a CUDA call from the enclosing function unless it succeeded.
#define PLE_CUDA_TRY(call) PLE_TRY(::ple::cuda_status((call), #call))
