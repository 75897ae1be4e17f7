#pragma once

#include <memory>

#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"

namespace ple {

// The layers of each family on the CPU, with their weights loaded. The pool outlives the layer.
Result<std::unique_ptr<Layer>> load_qwen4_exp_layer_cpu(const ModelSpec& model,
                                                        const LayerSpec& layer,
                                                        const LayerOptions& options,
                                                        ThreadPool& pool);

}  // namespace ple
