#include <fmt/format.h>

#include <cmath>

#include "synth/rows.hpp"

namespace pleiades::cli {
namespace {

constexpr std::uint64_t kVocabSize = 129280;
constexpr std::uint64_t kCodes = 99092;
constexpr std::uint64_t kTaps = 4;

// Parameters of a layer; those of a stream are kPerStream + 10 * stream + one of the last five.
enum Parameter : std::uint64_t {
  kRows = 0,
  kValue = 1,
  kValueBias = 2,
  kConv = 3,
  kRowScales = 4,
  kPerStream = 10,
  kKey = 0,
  kKeyBias = 1,
  kNormKey = 2,
  kNormQuery = 3,
  kNormConv = 4,
};

}  // namespace

CheckpointPlan plan_engram_demo_config(const SynthOptions& options) {
  refuse_unsharded(options);
  const std::uint64_t base = options.rows_base.value_or(646'400);
  CheckpointPlan plan;
  plan.config = {
      {"model_type", "engram_demo_v1"},
      {"engram",
       {{"engram_vocab_size", {base, base}},
        {"max_ngram_size", 3},
        {"n_embed_per_ngram", 512},
        {"n_head_per_ngram", 8},
        {"layer_ids", {1, 15}},
        {"pad_id", 2},
        {"seed", 0},
        {"kernel_size", kTaps},
        {"compressed_vocab_size", kCodes}}},
      {"backbone",
       {{"hidden_size", 1024}, {"hc_mult", 4}, {"vocab_size", kVocabSize}, {"num_layers", 30}}}};
  plan.small_files.push_back(made_up_token_map(kVocabSize, kCodes));
  return plan;
}

void plan_engram_demo_tensors(const SynthOptions& options, const Model& model,
                              CheckpointPlan& plan) {
  const std::vector<ple_layer_info> layers = model.layers();
  const auto prefix_of = [](const ple_layer_info& layer) {
    return fmt::format("layers.{}.engram.", layer.layer_index);
  };
  for (std::size_t position = 0; position < layers.size(); ++position) {
    const ple_layer_info& layer = layers[position];
    const auto hidden = static_cast<std::uint64_t>(layer.hidden);
    const auto streams = static_cast<std::uint64_t>(layer.stream_count);
    const std::uint64_t width =
        static_cast<std::uint64_t>(layer.column_count) * static_cast<std::uint64_t>(layer.row_dim);
    const float projection = 12.0F / std::sqrt(static_cast<float>(width));
    const std::string prefix = prefix_of(layer);
    const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape,
                         std::uint64_t parameter, float amplitude) {
      plan.tensors.push_back(noise_tensor(
          prefix + name, std::move(shape),
          {.stream = stream_of(options.seed, position, parameter), .amplitude = amplitude}));
    };
    const ple_hash_constants constants = model.constants(layer.layer_index);
    plan.tensors.push_back(integers(prefix + "multi_head_embedding.offsets",
                                    constants.column_offsets, constants.column_count));
    add("value_proj.weight", {hidden, width}, kValue, projection);
    add("value_proj.bias", {hidden}, kValueBias, 0.25F);
    add("short_conv.conv.weight", {streams * hidden, 1, kTaps}, kConv, 0.5F);
    for (std::uint64_t c = 0; c < streams; ++c) {
      const std::uint64_t first = kPerStream + 10 * c;
      add(fmt::format("key_projs.{}.weight", c), {hidden, width}, first + kKey, projection);
      add(fmt::format("key_projs.{}.bias", c), {hidden}, first + kKeyBias, 0.25F);
      add(fmt::format("norm1.{}.weight", c), {hidden}, first + kNormKey, 1.0F);
      add(fmt::format("norm2.{}.weight", c), {hidden}, first + kNormQuery, 1.0F);
      add(fmt::format("short_conv.norms.{}.weight", c), {hidden}, first + kNormConv, 1.0F);
    }
  }
  const std::size_t first_table = plan.tensors.size();
  for (std::size_t position = 0; position < layers.size(); ++position) {
    const RowDtype dtype = options.dtype.value_or(RowDtype::bf16);
    const std::string table = prefix_of(layers[position]) + "multi_head_embedding.embedding";
    add_rows(dtype,
             {.table = table,
              .row_count = layers[position].row_count,
              .dim = static_cast<std::uint64_t>(layers[position].row_dim),
              .stream = stream_of(options.seed, position, kRows),
              .scale_stream = stream_of(options.seed, position, kRowScales)},
             plan);
    add_table_scale(dtype, table, plan);
  }
  interleave(options, 2, first_table, plan);
}

}  // namespace pleiades::cli
