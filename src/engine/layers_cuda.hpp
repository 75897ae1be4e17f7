#pragma once

#include <memory>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/async_cuda.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"

namespace ple {

// Loads the weights of one family's layer and makes the layer. The device outlives it.
using LoadLayerCuda = Result<std::unique_ptr<Layer>>(const ModelSpec& model, const LayerSpec& layer,
                                                     const LayerOptions& options,
                                                     AsyncCuda& device);
LoadLayerCuda load_qwen4_exp_layer_cuda;
LoadLayerCuda load_engram_v41_layer_cuda;
LoadLayerCuda load_engram_demo_layer_cuda;
LoadLayerCuda load_longcat_layer_cuda;
LoadLayerCuda load_gemma_layer_cuda;

}  // namespace ple
