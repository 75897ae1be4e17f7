#pragma once

#include <memory>

#include "engine/async_cuda.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"
#include "kernels/ple_layer_cuda.hpp"

namespace ple {

// The layer with a gate and a conv, of qwen4_exp and of the Engram demo. parts are in device memory
// and may go when it returns; parts.memory is of no matter. The device is entered, and outlives the
// layer.
Result<std::unique_ptr<Layer>> make_ple_layer_cuda(kernels::PackPleWeightsArgs parts,
                                                   const LayerOptions& options, AsyncCuda& device);

}  // namespace ple
