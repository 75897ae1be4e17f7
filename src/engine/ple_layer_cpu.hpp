#pragma once

#include <memory>

#include "base/thread_pool.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"
#include "kernels/ple_layer_cpu.hpp"

namespace ple {

// The layer with a gate and a conv, of qwen4_exp and of the Engram demo, over its packed weights.
std::unique_ptr<Layer> make_ple_layer_cpu(const kernels::PleShape& shape,
                                          const LayerOptions& options,
                                          kernels::PleWeightsCpu weights, ThreadPool& pool);

}  // namespace ple
