#include "checkpoint/qwen4_exp.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/table_reader.hpp"
#include "ngram/qwen4_exp_hash.hpp"

namespace ple {
namespace {

bool matches(const Json&, std::string_view model_type) {
  return model_type == "qwen4_exp" || model_type == "qwen4_exp_text";
}

// 1-based, in any order and with repeats, to 0-based and ascending.
std::vector<std::int64_t> normalise_layers(std::vector<std::int64_t> layer_ids) {
  for (std::int64_t& id : layer_ids) --id;
  std::sort(layer_ids.begin(), layer_ids.end());
  layer_ids.erase(std::unique(layer_ids.begin(), layer_ids.end()), layer_ids.end());
  return layer_ids;
}

Result<ModelSpec> parse(const Json& json, const std::string& name) {
  ConfigReader reader(text_config(json, "ple_layer_ids"), name);
  Qwen4ExpConfig config;
  const std::int64_t decoder_layers = reader.integer("num_hidden_layers", 1, kLayerMax);
  config.layers = normalise_layers(
      reader.integers("ple_layer_ids", 1, std::max<std::int64_t>(1, decoder_layers)));
  config.vocab_size = reader.integer("vocab_size", 1, kTokenMax, 248320);
  config.hidden = reader.integer("hidden_size", 1, kDimMax, 2048);
  config.stream_count = reader.integer("hc_count", 2, kStreamMax, 4);
  config.embed_dim = reader.integer("ple_embed_dim", 1, kDimMax, config.hidden);
  config.tap_count = reader.integer("ple_conv_kernel_size", 1, kTapMax, 4);
  config.ngram_size = reader.integer("ngram_size", 2, XorColumns::kMaxNgramSize, 3);
  config.heads_per_ngram = reader.integer("heads_per_ngram", 1, XorColumns::kMaxHeads, 8);
  config.ngram_vocab_size_base = reader.integer("ngram_vocab_size_base", 0, kNoRow, 20'000'000);
  config.row_divisor = reader.integer("make_ngram_vocab_size_divisible_by", 1, kTokenMax, 128);
  config.seed = reader.integer("seed", INT64_MIN, INT64_MAX, 1234);
  config.eps = reader.number("rms_norm_eps", 1e-6);
  // How the table was cut follows from the files; only its plausibility is checked here.
  reader.integer("split_ngram_parts", 1, kNoRow, 512);
  const std::vector<std::int64_t> eos = reader.integers("eos_token_id", 0, kTokenMax);
  if (eos.empty()) reader.fail("'eos_token_id' is an empty list");
  if (config.layers.empty()) reader.fail("'ple_layer_ids' is empty: no layer has a memory");
  PLE_TRY(reader.status());
  config.eos_token = eos[0];  // the reference cuts at the first alone
  return qwen4_exp_model(config, name);
}

Status bind(const TensorFiles& files, LayerSpec& layer) {
  const std::string tail = fmt::format("layers.{}.ple.", layer.layer_index);
  PLE_TRY_ASSIGN(const std::string root, find_root(files, tail));
  const std::string prefix = root + tail;
  auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  PLE_TRY(bind_tensors(files, prefix, tensor_slots(parts)));

  const auto& hash = static_cast<const Qwen4ExpHash&>(*layer.hash);
  const std::string embedding = prefix + "ple_embedding.";
  PLE_TRY(compare_constants(files, embedding + "layer_multipliers", hash.columns().multipliers()));
  PLE_TRY(compare_constants(files, embedding + "ngram_heads_vocab_sizes", hash.columns().sizes()));
  PLE_TRY(compare_constants(files, embedding + "ngram_heads_offsets", hash.columns().offsets()));

  const std::int32_t dim = parts.embed_dim / hash.column_count();
  PLE_TRY_ASSIGN(layer.table,
                 read_table(files, embedding + "ngram_embedding", hash.row_count(), dim));
  return {};
}

Status check(const Qwen4ExpConfig& config, const std::string& name) {
  const auto refuse = [&name](const std::string& reason) {
    return error(StatusCode::invalid_argument, "'{}': {}", name, reason);
  };
  const auto within = [](std::int64_t value, std::int64_t least, std::int64_t most) {
    return value >= least && value <= most;
  };
  if (!within(config.hidden, 1, kDimMax)) return refuse(fmt::format("hidden is {}", config.hidden));
  if (!within(config.embed_dim, 1, kDimMax)) {
    return refuse(fmt::format("embed_dim is {}", config.embed_dim));
  }
  if (!within(config.stream_count, 2, kStreamMax)) {
    return refuse(fmt::format("{} streams, outside [2, {}]", config.stream_count, kStreamMax));
  }
  if (!within(config.tap_count, 1, kTapMax)) {
    return refuse(fmt::format("{} taps, outside [1, {}]", config.tap_count, kTapMax));
  }
  if (!(config.eps > 0.0) || !std::isfinite(config.eps)) {
    return refuse(fmt::format("eps is {}", config.eps));
  }
  if (config.layers.empty()) return refuse("no layer has a memory");
  for (std::size_t i = 0; i < config.layers.size(); ++i) {
    if (!within(config.layers[i], i == 0 ? 0 : config.layers[i - 1] + 1, kLayerMax)) {
      return refuse(fmt::format("layers [{}] are not ascending in [0, {}]",
                                fmt::join(config.layers, ", "), kLayerMax));
    }
  }
  return {};
}

}  // namespace

const FamilyReader kQwen4ExpReader = {matches, parse, bind};

Result<ModelSpec> qwen4_exp_model(const Qwen4ExpConfig& config, const std::string& name) {
  PLE_TRY(check(config, name));
  ModelSpec model{.family = Family::qwen4_exp, .vocab_size = config.vocab_size};
  for (std::size_t position = 0; position < config.layers.size(); ++position) {
    const Qwen4ExpHash::Config hash_config{.vocab_size = config.vocab_size,
                                           .ngram_size = config.ngram_size,
                                           .heads_per_ngram = config.heads_per_ngram,
                                           .size_base = config.ngram_vocab_size_base,
                                           .row_divisor = config.row_divisor,
                                           .seed = config.seed,
                                           .eos_token = config.eos_token,
                                           .layer_position = static_cast<std::int64_t>(position)};
    PLE_TRY_ASSIGN(auto hash, with_name(name, Qwen4ExpHash::create(hash_config)));
    const std::int32_t columns = hash->column_count();
    if (config.embed_dim % columns != 0) {
      return error(StatusCode::invalid_argument, "'{}': embed_dim {} is not divisible by {} heads",
                   name, config.embed_dim, columns);
    }
    model.layers.push_back(
        {.layer_index = static_cast<std::int32_t>(config.layers[position]),
         .hash = std::move(hash),
         .table = {},
         .parts = Qwen4ExpLayer{.hidden = static_cast<std::int32_t>(config.hidden),
                                .stream_count = static_cast<std::int32_t>(config.stream_count),
                                .embed_dim = static_cast<std::int32_t>(config.embed_dim),
                                .tap_count = static_cast<std::int32_t>(config.tap_count),
                                .dilation = static_cast<std::int32_t>(config.ngram_size),
                                .eps = static_cast<float>(config.eps)}});
  }
  return model;
}

std::vector<TensorSlot> tensor_slots(Qwen4ExpLayer& layer) {
  const std::int64_t highway = std::int64_t{layer.stream_count} * layer.hidden;
  return {
      {&layer.key, "key_proj.weight", DType::bf16, {highway, layer.embed_dim}},
      {&layer.value, "value_proj.weight", DType::bf16, {layer.hidden, layer.embed_dim}},
      {&layer.norm_key, "norm_key.weight", DType::bf16, {highway}},
      {&layer.norm_query, "norm_query.weight", DType::bf16, {highway}},
      {&layer.norm_conv, "norm_conv.weight", DType::bf16, {highway}},
      {&layer.conv, "conv1d.weight", DType::bf16, {highway, 1, layer.tap_count}},
  };
}

void add_constants(Digest& digest, const Qwen4ExpLayer& layer) {
  digest.add(layer.dilation).add(std::bit_cast<std::uint32_t>(layer.eps));
}

}  // namespace ple
