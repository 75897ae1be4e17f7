#include <algorithm>
#include <utility>

#include "engine/layers_cpu.hpp"
#include "engine/packed_weights_cpu.hpp"
#include "engine/weights.hpp"
#include "kernels/longcat_layer_cpu.hpp"

namespace ple {

namespace {

using kernels::LongcatShape;

class LongcatLayerCpu : public StatelessLayerCpu {
 public:
  LongcatLayerCpu(const LongcatShape& shape, bool rounds_each, std::vector<TokenId> ignored,
                  kernels::LongcatWeightsCpu weights, ThreadPool& pool)
      : shape_(shape),
        rounds_each_(rounds_each),
        ignored_(std::move(ignored)),
        weights_(std::move(weights)),
        pool_(pool) {
    traits_.output_elements = shape.hidden;
    traits_.stream_count = 1;
    traits_.dense_bytes = weights_.words().bytes() +
                          2 * static_cast<std::uint64_t>(std::int64_t{shape.hidden} *
                                                         shape.table_count * shape.row_dim);
  }

  std::int64_t workspace_bytes(std::int64_t token_count) const override {
    return static_cast<std::int64_t>(
        kernels::longcat_layer_scratch_bytes_cpu(shape_, static_cast<std::int32_t>(token_count)));
  }

  Status run(LayerWorkspace& layer_workspace, const LayerRun& run) const override {
    auto& workspace = static_cast<Workspace&>(layer_workspace);
    std::transform(run.tokens.begin(), run.tokens.end(), workspace.flags.begin(),
                   [&](TokenId token) {
                     return std::binary_search(ignored_.begin(), ignored_.end(), token) ? 1 : 0;
                   });
    kernels::LongcatLayerArgs args;
    args.shape = shape_;
    args.rounds_each = rounds_each_;
    args.output_type = highway_type(run.element);
    args.rows = run.rows;
    args.slots = run.slots.data();
    args.tokens = run.tokens.data();
    args.ignored = workspace.flags.data();
    args.output = run.output;
    args.scratch = workspace.scratch.data();
    args.token_count = static_cast<std::int32_t>(run.tokens.size());
    return kernels::longcat_layer_cpu(args, weights_, pool_);
  }

 private:
  LongcatShape shape_;
  bool rounds_each_;
  std::vector<TokenId> ignored_;  // ascending
  kernels::LongcatWeightsCpu weights_;
  ThreadPool& pool_;
};

}  // namespace

Result<std::unique_ptr<Layer>> load_longcat_layer_cpu(const ModelSpec& model,
                                                      const LayerSpec& layer,
                                                      const LayerOptions& options,
                                                      ThreadPool& pool) {
  const auto& parts = std::get<LongcatLayer>(layer.parts);
  const LongcatShape shape{.vocab_size = parts.vocab_size,
                           .hidden = parts.hidden,
                           .table_count = parts.table_count,
                           .row_dim = parts.hidden / parts.table_count};
  const bool rounds_each = options.arithmetic == kernels::Arithmetic::reference;
  PLE_TRY_ASSIGN(kernels::LongcatWeightsCpu weights,
                 kernels::LongcatWeightsCpu::create(shape, rounds_each));
  AlignedBuffer& words = weights.words();
  PLE_TRY(read_tensor(model, parts.word_embedding, 0, std::span(words.data(), words.bytes())));
  for (std::size_t table = 0; table < parts.projection.size(); ++table) {
    PLE_TRY(pack_bf16(model, parts.projection[table], 0, weights.projections()[table]));
  }
  return std::unique_ptr<Layer>(std::make_unique<LongcatLayerCpu>(
      shape, rounds_each, parts.ignored_tokens, std::move(weights), pool));
}

}  // namespace ple
