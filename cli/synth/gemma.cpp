#include <cmath>

#include "synth/rows.hpp"

namespace pleiades::cli {
namespace {

constexpr std::uint64_t kHidden = 2048;
constexpr std::uint64_t kLayerDim = 256;

enum Parameter : std::uint64_t { kRows = 0, kProjection = 1, kNorm = 2, kRowScales = 3 };

}  // namespace

CheckpointPlan plan_gemma_e2b_config(const SynthOptions& options) {
  refuse_unsharded(options);
  const std::uint64_t rows = options.rows_base.value_or(262'144);
  CheckpointPlan plan;
  // Ids from the table's end on belong to images and sound, and read row 0.
  plan.config = {{"architectures", {"Gemma3nForConditionalGeneration"}},
                 {"model_type", "gemma3n"},
                 {"text_config",
                  {{"model_type", "gemma3n_text"},
                   {"vocab_size", rows + 256},
                   {"vocab_size_per_layer_input", rows},
                   {"hidden_size", kHidden},
                   {"hidden_size_per_layer_input", kLayerDim},
                   {"num_hidden_layers", 30},
                   {"rms_norm_eps", 1e-6},
                   {"pad_token_id", 0}}}};
  return plan;
}

void plan_gemma_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan) {
  const ple_layer_info layer = model.layers().front();
  const auto width = static_cast<std::uint64_t>(layer.row_dim);
  const auto add = [&](const char* name, std::vector<std::uint64_t> shape, std::uint64_t parameter,
                       float amplitude) {
    plan.tensors.push_back(
        noise_tensor(std::string("model.language_model.") + name, std::move(shape),
                     {.stream = stream_of(options.seed, 0, parameter), .amplitude = amplitude}));
  };
  add("per_layer_model_projection.weight", {width, kHidden}, kProjection,
      2.0F / std::sqrt(static_cast<float>(kHidden)));
  add("per_layer_projection_norm.weight", {kLayerDim}, kNorm, 1.0F);
  const std::size_t first_table = plan.tensors.size();
  const RowDtype dtype = options.dtype.value_or(RowDtype::bf16);
  const std::string table = "model.language_model.embed_tokens_per_layer";
  add_rows(dtype,
           {.table = table,
            .row_count = layer.row_count,
            .dim = width,
            .stream = stream_of(options.seed, 0, kRows),
            .scale_stream = stream_of(options.seed, 0, kRowScales)},
           plan);
  add_table_scale(dtype, table, plan);
  interleave(options, 1, first_table, plan);
}

}  // namespace pleiades::cli
