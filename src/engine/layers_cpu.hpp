#pragma once

#include <memory>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"

namespace ple {

// Loads the weights of one family's layer and makes the layer. The pool outlives it.
using LoadLayerCpu = Result<std::unique_ptr<Layer>>(const ModelSpec& model, const LayerSpec& layer,
                                                    const LayerOptions& options, ThreadPool& pool);
LoadLayerCpu load_qwen4_exp_layer_cpu;
LoadLayerCpu load_engram_v41_layer_cpu;
LoadLayerCpu load_engram_demo_layer_cpu;
LoadLayerCpu load_longcat_layer_cpu;
LoadLayerCpu load_gemma_layer_cpu;

// A layer without carried state, whose workspace is one piece of memory and a flag for each token.
class StatelessLayerCpu : public Layer {
 public:
  Result<std::unique_ptr<LayerWorkspace>> make_workspace(std::int32_t tokens_max,
                                                         std::int32_t sequences_max) const final;

 protected:
  struct Workspace : LayerWorkspace {
    AlignedBuffer scratch;
    std::vector<std::uint8_t> flags;  // room for those of [tokens_max]
  };
};

}  // namespace ple
