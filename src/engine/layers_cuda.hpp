#pragma once

#include <memory>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/async_cuda.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"

namespace ple {

// The layers of each family on a CUDA device, with their weights loaded. The device outlives the
// layer.
Result<std::unique_ptr<Layer>> load_qwen4_exp_layer_cuda(const ModelSpec& model,
                                                         const LayerSpec& layer,
                                                         const LayerOptions& options,
                                                         AsyncCuda& device);

}  // namespace ple
