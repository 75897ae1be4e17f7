#include <algorithm>
#include <utility>

#include "engine/engram_v41_layer.hpp"
#include "engine/layers_cpu.hpp"
#include "engine/packed_weights_cpu.hpp"
#include "engine/weights.hpp"
#include "kernels/engram_layer_cpu.hpp"

namespace ple {

namespace {

using kernels::EngramRounding;
using kernels::EngramShape;

class EngramV41LayerCpu : public StatelessLayerCpu {
 public:
  EngramV41LayerCpu(const EngramShape& shape, EngramRounding rounding,
                    std::shared_ptr<const RowHash> hash, kernels::EngramWeightsCpu weights,
                    ThreadPool& pool)
      : shape_(shape),
        rounding_(rounding),
        hash_(std::move(hash)),
        weights_(std::move(weights)),
        pool_(pool) {
    traits_ = engram_traits(shape, weights_.key_value().shape().is_e4m3 ? 1 : 2);
  }

  std::int64_t workspace_bytes(std::int64_t token_count) const override {
    return static_cast<std::int64_t>(
        kernels::engram_layer_scratch_bytes_cpu(shape_, static_cast<std::int32_t>(token_count)));
  }

  Status run(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    auto& workspace = static_cast<Workspace&>(layer_workspace);
    std::transform(run.tokens.begin(), run.tokens.end(), workspace.flags.begin(),
                   [&](TokenId token) { return hash_->is_dead(token) ? 1 : 0; });
    kernels::EngramLayerArgs args;
    args.shape = shape_;
    args.rounding = rounding_;
    args.highway_type = highway_type(run.element);
    args.output_mode = run.mode;
    args.rows = run.rows;
    args.slots = run.slots.data();
    args.dead = workspace.flags.data();
    args.highway = run.input;
    args.output = run.output;
    args.scratch = workspace.scratch.data();
    args.token_count = static_cast<std::int32_t>(run.tokens.size());
    return kernels::engram_layer_cpu(args, weights_, pool_);
  }

 private:
  EngramShape shape_;
  EngramRounding rounding_;
  std::shared_ptr<const RowHash> hash_;
  kernels::EngramWeightsCpu weights_;
  ThreadPool& pool_;
};

// As codes, or, where the kernels do not take the checkpoint's, as bf16.
Result<kernels::EngramWeightsCpu> load_weights(const ModelSpec& model, const EngramLayer& parts,
                                               const EngramShape& shape, EngramRounding rounding) {
  PLE_TRY_ASSIGN(const auto query_weight, read_bf16(model, parts.query_weight));
  PLE_TRY_ASSIGN(const auto key_weight, read_bf16(model, parts.key_weight));
  const auto load = [&](bool is_e4m3) -> Result<kernels::EngramWeightsCpu> {
    PLE_TRY_ASSIGN(auto weights, kernels::EngramWeightsCpu::create(shape, rounding, query_weight,
                                                                   key_weight, is_e4m3));
    PLE_TRY(pack_e4m3_blocks(model, parts.key_value, parts.key_value_scale, weights.key_value()));
    return weights;
  };
  if (shape.hidden % kernels::kScaleBlock == 0 && shape.embed_dim % kernels::kScaleBlock == 0) {
    auto weights = load(true);
    if (weights.is_ok() || weights.status().code() != StatusCode::unsupported) return weights;
  }
  return load(false);
}

}  // namespace

Result<std::unique_ptr<Layer>> load_engram_v41_layer_cpu(const ModelSpec& model,
                                                         const LayerSpec& layer,
                                                         const LayerOptions& options,
                                                         ThreadPool& pool) {
  const auto& parts = std::get<EngramLayer>(layer.parts);
  const EngramShape shape = engram_shape_of(layer);
  const EngramRounding rounding = engram_rounding_of(options);
  PLE_TRY_ASSIGN(kernels::EngramWeightsCpu weights, load_weights(model, parts, shape, rounding));
  return std::unique_ptr<Layer>(
      std::make_unique<EngramV41LayerCpu>(shape, rounding, layer.hash, std::move(weights), pool));
}

}  // namespace ple
