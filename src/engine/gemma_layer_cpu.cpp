#include <utility>

#include "engine/gemma_scales.hpp"
#include "engine/layers_cpu.hpp"
#include "engine/packed_weights_cpu.hpp"
#include "engine/weights.hpp"
#include "kernels/gemma_layer_cpu.hpp"

namespace ple {

namespace {

using kernels::GemmaScales;
using kernels::GemmaShape;

class GemmaLayerCpu : public StatelessLayerCpu {
 public:
  GemmaLayerCpu(const GemmaShape& shape, const GemmaScales& scales, bool rounds_each,
                kernels::GemmaWeightsCpu weights, ThreadPool& pool)
      : shape_(shape),
        scales_(scales),
        rounds_each_(rounds_each),
        weights_(std::move(weights)),
        pool_(pool) {
    traits_.input_elements = shape.hidden;
    traits_.output_elements = std::int64_t{shape.layer_count} * shape.layer_dim;
    traits_.stream_count = 1;
    traits_.dense_bytes = static_cast<std::uint64_t>(traits_.output_elements * shape.hidden * 2 +
                                                     std::int64_t{shape.layer_dim} * 4);
  }

  std::int64_t workspace_bytes(std::int64_t token_count) const override {
    return static_cast<std::int64_t>(
        kernels::gemma_layer_scratch_bytes_cpu(shape_, static_cast<std::int32_t>(token_count)));
  }

  Status run(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    kernels::GemmaLayerArgs args;
    args.shape = shape_;
    args.scales = scales_;
    args.rounds_each = rounds_each_;
    args.type = highway_type(run.element);
    args.rows = run.rows;
    args.slots = run.slots.data();
    args.input = run.input;
    args.output = run.output;
    args.scratch = static_cast<Workspace&>(layer_workspace).scratch.data();
    args.token_count = static_cast<std::int32_t>(run.tokens.size());
    return kernels::gemma_layer_cpu(args, weights_, pool_);
  }

 private:
  GemmaShape shape_;
  GemmaScales scales_;
  bool rounds_each_;
  kernels::GemmaWeightsCpu weights_;
  ThreadPool& pool_;
};

}  // namespace

Result<std::unique_ptr<Layer>> load_gemma_layer_cpu(const ModelSpec& model, const LayerSpec& layer,
                                                    const LayerOptions& options, ThreadPool& pool) {
  const auto& parts = std::get<GemmaLayer>(layer.parts);
  const GemmaShape shape{.hidden = parts.hidden,
                         .layer_count = parts.layer_count,
                         .layer_dim = parts.layer_dim,
                         .eps = parts.eps};
  const bool is_bf16 = options.arithmetic == kernels::Arithmetic::reference;
  PLE_TRY_ASSIGN(const auto norm_weight, read_bf16(model, parts.projection_norm));
  PLE_TRY_ASSIGN(kernels::GemmaWeightsCpu weights,
                 kernels::GemmaWeightsCpu::create(shape, is_bf16, norm_weight));
  PLE_TRY(pack_bf16(model, parts.projection, 0, weights.projection()));
  return std::unique_ptr<Layer>(std::make_unique<GemmaLayerCpu>(shape, gemma_scales(parts, is_bf16),
                                                                is_bf16, std::move(weights), pool));
}

}  // namespace ple
