#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <optional>
#include <variant>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/table_reader.hpp"
#include "ngram/engram_hash.hpp"

// DeepSeek V4.1 Engram (specification B.2).

namespace ple {
namespace {

constexpr std::int64_t kScaleBlock = 32;  // FP8 weights have one scale per 32x32 block

bool matches(const Json& config, std::string_view model_type) {
  return model_type.starts_with("deepseek") &&
         text_config(config, "engram_layer_ids").contains("engram_layer_ids");
}

EngramHash::Config read_hash(ConfigReader& reader, std::optional<std::int64_t> image_token) {
  EngramHash::Config hash;
  const std::int64_t decoder_layers = reader.integer("num_hidden_layers", 1, kLayerMax);
  hash.vocab_size = reader.integer("vocab_size", 1, kTokenMax);
  hash.code_count = reader.integer("engram_compressed_vocab_size", 1, kTokenMax);
  const std::int64_t ngram_size =
      reader.integer("engram_max_ngram_size", 2, XorColumns::kMaxNgramSize);
  const std::int64_t base = reader.integer("engram_vocab_size", 0, kNoRow);
  hash.size_bases.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, ngram_size - 1)), base);
  hash.heads_per_ngram = reader.integer("engram_n_heads", 1, XorColumns::kMaxHeads);
  // The released config.json says token_id, DeepSeek's own inference config does not.
  const char* const pad =
      reader.has("engram_pad_token_id") ? "engram_pad_token_id" : "engram_pad_id";
  hash.pad_token = reader.integer(pad, 0, kTokenMax, 2);
  hash.layers =
      reader.integers("engram_layer_ids", 0, std::max<std::int64_t>(0, decoder_layers - 1));
  if (image_token) hash.dead_token = static_cast<TokenId>(*image_token);
  return hash;
}

Status check_rows(ConfigReader& reader, const EngramHash::Layers& layers) {
  const std::vector<std::int64_t> rows = reader.integers("engram_num_embeddings", 1, kNoRow);
  PLE_TRY(reader.status());
  if (rows.size() != layers.size()) {
    reader.fail(fmt::format("'engram_num_embeddings' has {} entries for {} layers", rows.size(),
                            layers.size()));
    return reader.status();
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<std::uint64_t>(rows[i]) == layers[i]->row_count()) continue;
    reader.fail(fmt::format("'engram_num_embeddings' [{}] is {}, the primes add up to {}", i,
                            rows[i], layers[i]->row_count()));
  }
  return reader.status();
}

Result<ModelSpec> parse(const Json& json, const std::string& name) {
  ConfigReader top(json, name);
  ConfigReader reader(text_config(json, "engram_layer_ids"), name);
  std::optional<std::int64_t> image_token;
  if (top.has("image_token_id")) image_token = top.integer("image_token_id", 0, kTokenMax);
  const EngramHash::Config hash = read_hash(reader, image_token);

  EngramLayer parts;
  parts.hidden = static_cast<std::int32_t>(reader.integer("hidden_size", 1, kDimMax));
  parts.stream_count = static_cast<std::int32_t>(reader.integer("hc_mult", 1, kStreamMax));
  parts.eps = static_cast<float>(reader.number("rms_norm_eps"));
  const std::int64_t dim = reader.integer("engram_head_dim", 1, kDimMax);
  if (dim % kScaleBlock != 0) {
    reader.fail(fmt::format("'engram_head_dim' is {}, not a multiple of {}", dim, kScaleBlock));
  }
  if ((parts.stream_count + 1) * std::int64_t{parts.hidden} % kScaleBlock != 0) {
    reader.fail(fmt::format("'hidden_size' is {}: {} rows of it are no multiple of {}",
                            parts.hidden, parts.stream_count + 1, kScaleBlock));
  }
  if (reader.has("engram_rotation_config")) {
    reader.fail("'engram_rotation_config' is not supported");
  }
  if (!(parts.eps > 0.0F) || !std::isfinite(parts.eps)) {
    reader.fail(fmt::format("'rms_norm_eps' is {}", parts.eps));
  }
  if (std::adjacent_find(hash.layers.begin(), hash.layers.end(), std::greater_equal<>()) !=
      hash.layers.end()) {
    reader.fail("'engram_layer_ids' are not ascending");
  }
  PLE_TRY(top.status());
  PLE_TRY(reader.status());

  PLE_TRY_ASSIGN(const EngramHash::Layers layers, with_name(name, EngramHash::create_layers(hash)));
  PLE_TRY(check_rows(reader, layers));
  ModelSpec model{.family = Family::engram_v41, .vocab_size = hash.vocab_size};
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::int64_t embed_dim = layers[i]->column_count() * dim;
    if (embed_dim > kDimMax) {
      return error(StatusCode::unsupported, "config '{}': a token's rows have {} elements", name,
                   embed_dim);
    }
    parts.embed_dim = static_cast<std::int32_t>(embed_dim);
    model.layers.push_back({.layer_index = static_cast<std::int32_t>(hash.layers[i]),
                            .hash = layers[i],
                            .table = {},
                            .parts = parts});
  }
  return model;
}

Status bind(const TensorFiles& files, LayerSpec& layer) {
  const std::string tail = fmt::format("layers.{}.engram.", layer.layer_index);
  PLE_TRY_ASSIGN(const std::string root, find_root(files, tail));
  auto& parts = std::get<EngramLayer>(layer.parts);
  PLE_TRY(bind_tensors(files, root + tail, tensor_slots(parts)));
  const std::int32_t dim = parts.embed_dim / layer.hash->column_count();
  PLE_TRY_ASSIGN(layer.table,
                 read_table(files, root + tail + "embed", layer.hash->row_count(), dim));
  return {};
}

}  // namespace

const FamilyReader kEngramV41Reader = {matches, parse, bind};

std::vector<TensorSlot> tensor_slots(EngramLayer& layer) {
  const std::int64_t rows = std::int64_t{layer.stream_count + 1} * layer.hidden;
  return {
      {&layer.key_value, "wkv.weight", DType::f8_e4m3, {rows, layer.embed_dim}},
      {&layer.key_value_scale,
       "wkv.scale",
       DType::f8_e8m0,
       {rows / kScaleBlock, layer.embed_dim / kScaleBlock}},
      {&layer.query_weight, "q_weight", DType::bf16, {layer.stream_count, layer.hidden}},
      {&layer.key_weight, "k_weight", DType::bf16, {layer.stream_count, layer.hidden}},
  };
}

void add_constants(Digest& digest, const EngramLayer& layer) {
  digest.add(std::bit_cast<std::uint32_t>(layer.eps));
}

}  // namespace ple
