#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "synth/rows.hpp"

namespace pleiades::cli {
namespace {

// Parameters of a layer; the number is part of the noise stream.
enum Parameter : std::uint64_t {
  kRows = 0,
  kKey = 1,
  kValue = 2,
  kNormKey = 3,
  kNormQuery = 4,
  kNormConv = 5,
  kConv = 6,
  kRowScales = 7,
};

// The text part of the config, at the top level or under text_config.
const nlohmann::ordered_json& text_config(const CheckpointPlan& plan) {
  const auto nested = plan.config.find("text_config");
  return nested == plan.config.end() ? plan.config : *nested;
}

void add_dense(const SynthOptions& options, const std::string& prefix, std::uint64_t position,
               const ple_layer_info& layer, std::uint64_t tap_count, CheckpointPlan& plan) {
  const auto hidden = static_cast<std::uint64_t>(layer.hidden);
  const std::uint64_t channels = static_cast<std::uint64_t>(layer.stream_count) * hidden;
  const auto embed_dim =
      static_cast<std::uint64_t>(layer.column_count) * static_cast<std::uint64_t>(layer.row_dim);
  // Projected rows come out about as large as the highway.
  const float projection = 12.0F / std::sqrt(static_cast<float>(embed_dim));
  const auto add = [&](const char* name, std::vector<std::uint64_t> shape, Parameter parameter,
                       float amplitude) {
    plan.tensors.push_back(noise_tensor(
        prefix + name, std::move(shape),
        {.stream = stream_of(options.seed, position, parameter), .amplitude = amplitude}));
  };
  add("key_proj.weight", {channels, embed_dim}, kKey, projection);
  add("value_proj.weight", {hidden, embed_dim}, kValue, projection);
  add("norm_key.weight", {channels}, kNormKey, 0.25F);
  add("norm_query.weight", {channels}, kNormQuery, 0.25F);
  add("norm_conv.weight", {channels}, kNormConv, 0.25F);
  add("conv1d.weight", {channels, 1, tap_count}, kConv, 0.5F);
}

void add_shards(const SynthOptions& options, const std::string& table, std::uint64_t position,
                const ple_layer_info& layer, std::uint64_t shard_count, CheckpointPlan& plan) {
  const std::uint64_t shard_rows = (layer.row_count + shard_count - 1) / shard_count;
  for (std::uint64_t s = 0; s * shard_rows < layer.row_count; ++s) {
    const std::uint64_t begin = s * shard_rows;
    add_rows(options.dtype.value_or(RowDtype::bf16),
             {.table = table,
              .shard = fmt::format(".shard_{}", s),
              .row_begin = begin,
              .row_count = std::min(shard_rows, layer.row_count - begin),
              .dim = static_cast<std::uint64_t>(layer.row_dim),
              .stream = stream_of(options.seed, position, kRows),
              .scale_stream = stream_of(options.seed, position, kRowScales)},
             plan);
  }
}

}  // namespace

CheckpointPlan plan_flash_next_config(const SynthOptions& options) {
  CheckpointPlan plan;
  plan.config = {{"architectures", {"Qwen4ExpForConditionalGeneration"}},
                 {"model_type", "qwen4_exp"},
                 {"image_token_id", 248056},
                 {"video_token_id", 248057},
                 {"vision_start_token_id", 248053},
                 {"vision_end_token_id", 248054},
                 {"text_config",
                  {{"model_type", "qwen4_exp_text"},
                   {"dtype", "bfloat16"},
                   {"vocab_size", 248320},
                   {"hidden_size", 2560},
                   {"num_hidden_layers", 48},
                   {"hc_count", 4},
                   {"hc_lowrank", 320},
                   {"ple_layer_ids", {2}},
                   {"ple_embed_dim", 2560},
                   {"ple_conv_kernel_size", 4},
                   {"ngram_size", 3},
                   {"heads_per_ngram", 8},
                   {"ngram_vocab_size_base", options.rows_base.value_or(20'000'000)},
                   {"make_ngram_vocab_size_divisible_by", 128},
                   {"split_ngram_parts", options.shards.value_or(128)},
                   {"eos_token_id", 248044},
                   {"rms_norm_eps", 1e-6}}}};
  if (options.dtype == RowDtype::fp8)
    plan.config["text_config"]["ple_embedding_dtype"] = "float8_e4m3fn";
  return plan;
}

void plan_qwen4_exp_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan) {
  const nlohmann::ordered_json& text = text_config(plan);
  const bool is_nested = &text != &plan.config;
  const std::string root = is_nested ? "model.language_model.layers." : "model.layers.";
  const std::vector<ple_layer_info> layers = model.layers();
  for (std::size_t position = 0; position < layers.size(); ++position) {
    const ple_layer_info& layer = layers[position];
    const std::string prefix = fmt::format("{}{}.ple.", root, layer.layer_index);
    const std::string table = prefix + "ple_embedding.";
    const ple_hash_constants constants = model.constants(layer.layer_index);
    plan.tensors.push_back(
        integers(table + "layer_multipliers", constants.multipliers, constants.multiplier_count));
    plan.tensors.push_back(integers(table + "ngram_heads_vocab_sizes", constants.column_sizes,
                                    constants.column_count));
    plan.tensors.push_back(
        integers(table + "ngram_heads_offsets", constants.column_offsets, constants.column_count));
    add_table_scale(options.dtype.value_or(RowDtype::bf16), table + "ngram_embedding", plan);
    add_dense(options, prefix, position, layer, text["ple_conv_kernel_size"], plan);
  }
  const std::size_t first_shard = plan.tensors.size();
  for (std::size_t position = 0; position < layers.size(); ++position) {
    add_shards(
        options,
        fmt::format("{}{}.ple.ple_embedding.ngram_embedding", root, layers[position].layer_index),
        position, layers[position], text["split_ngram_parts"], plan);
  }
  interleave(options, 10, first_shard, plan);
}

}  // namespace pleiades::cli
