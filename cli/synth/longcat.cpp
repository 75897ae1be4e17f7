#include <fmt/format.h>

#include <cmath>
#include <numeric>

#include "synth/rows.hpp"

namespace pleiades::cli {
namespace {

constexpr std::uint64_t kTextVocabSize = 131072;
constexpr std::uint64_t kHidden = 3072;

// Parameters of the layer; table i is kTables + i, and so on.
enum Parameter : std::uint64_t { kWords = 0, kTables = 1, kTableScales = 20, kProjections = 50 };

CheckpointPlan plan_config(const SynthOptions& options, const char* architecture,
                           const char* model_type, std::uint64_t vocab_size) {
  refuse_unsharded(options);
  CheckpointPlan plan;
  plan.config = {{"architectures", {architecture}},
                 {"model_type", model_type},
                 {"vocab_size", vocab_size},
                 {"hidden_size", kHidden},
                 {"emb_neighbor_num", 4},
                 {"emb_split_num", 4},
                 {"bos_token_id", 1},
                 {"eos_token_id", 2},
                 {"torch_dtype", "bfloat16"}};
  if (options.rows_base) {
    // Exact: the vocabulary of the hash is a power of two.
    plan.config["ngram_vocab_size_ratio"] =
        static_cast<double>(*options.rows_base) / static_cast<double>(kTextVocabSize);
  } else {
    plan.config["ngram_vocab_size_ratio"] = 78;
  }
  return plan;
}

}  // namespace

CheckpointPlan plan_longcat_lite_config(const SynthOptions& options) {
  return plan_config(options, "LongcatFlashNgramForCausalLM", "longcat_flash_ngram",
                     kTextVocabSize);
}

CheckpointPlan plan_longcat_next_config(const SynthOptions& options) {
  CheckpointPlan plan = plan_config(options, "LongcatNextForCausalLM", "longcat_next", 282'624);
  std::vector<std::uint64_t> ignored(53);
  std::iota(ignored.begin(), ignored.end(), kTextVocabSize);
  plan.config["text_vocab_size"] = kTextVocabSize;
  plan.config["text_vocab_plus_multimodal_special_token_size"] = kTextVocabSize + ignored.size();
  plan.config["oe_ignored_token_ids"] = ignored;
  return plan;
}

void plan_longcat_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan) {
  const ple_layer_info layer = model.layers().front();
  const ple_hash_constants constants = model.constants(layer.layer_index);
  const auto row_dim = static_cast<std::uint64_t>(layer.row_dim);
  const auto add = [&](const std::string& name, std::vector<std::uint64_t> shape,
                       std::uint64_t parameter, float amplitude) {
    plan.tensors.push_back(
        noise_tensor("model." + name, std::move(shape),
                     {.stream = stream_of(options.seed, 0, parameter), .amplitude = amplitude}));
  };
  add("embed_tokens.weight", {plan.config["vocab_size"], kHidden}, kWords, 1.0F);
  const float projection = 12.0F / std::sqrt(static_cast<float>(row_dim));
  for (std::int32_t i = 0; i < constants.column_count; ++i) {
    add(fmt::format("ngram_embeddings.post_projs.{}.weight", i), {kHidden, row_dim},
        kProjections + static_cast<std::uint64_t>(i), projection);
  }
  const std::size_t first_table = plan.tensors.size();
  for (std::int32_t i = 0; i < constants.column_count; ++i) {
    const RowDtype dtype = options.dtype.value_or(RowDtype::bf16);
    const std::string table = fmt::format("model.ngram_embeddings.embedders.{}", i);
    const auto number = static_cast<std::uint64_t>(i);
    add_rows(dtype,
             {.table = table,
              .row_count = static_cast<std::uint64_t>(constants.column_sizes[i]),
              .dim = row_dim,
              .stream = stream_of(options.seed, 0, kTables + number),
              .scale_stream = stream_of(options.seed, 0, kTableScales + number)},
             plan);
    add_table_scale(dtype, table, plan);
  }
  interleave(options, 4, first_table, plan);
}

}  // namespace pleiades::cli
