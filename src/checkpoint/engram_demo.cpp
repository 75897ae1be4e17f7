#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <variant>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/table_reader.hpp"
#include "ngram/engram_hash.hpp"

// The Engram demo, version 1 (specification B.1). It has no published checkpoint: config.json holds
// the demo's two config classes as "engram" and "backbone".

namespace ple {
namespace {

constexpr float kNormEps = std::numeric_limits<float>::epsilon();  // what nn.RMSNorm's None means
constexpr float kConvNormEps = 1e-5F;

bool matches(const Json&, std::string_view model_type) { return model_type == "engram_demo_v1"; }

const Json& section(const Json& config, std::string_view key) {
  static const Json kEmpty = Json::object();
  const auto place = config.find(key);
  return place != config.end() && place->is_object() ? *place : kEmpty;
}

Result<ModelSpec> parse(const Json& json, const std::string& name) {
  ConfigReader engram(section(json, "engram"), name, "engram.");
  ConfigReader backbone(section(json, "backbone"), name, "backbone.");
  const std::int64_t decoder_layers = backbone.integer("num_layers", 1, kLayerMax);
  EngramHash::Config hash;
  hash.has_dead_tokens = false;
  hash.vocab_size = backbone.integer("vocab_size", 1, kTokenMax);
  hash.code_count = engram.integer("compressed_vocab_size", 1, kTokenMax);
  hash.size_bases = engram.integers("engram_vocab_size", 0, kNoRow);
  hash.heads_per_ngram = engram.integer("n_head_per_ngram", 1, XorColumns::kMaxHeads);
  hash.pad_token = engram.integer("pad_id", 0, kTokenMax, 2);
  hash.seed = engram.integer("seed", 0, std::numeric_limits<std::int64_t>::max() / 2, 0);
  hash.layers = engram.integers("layer_ids", 0, std::max<std::int64_t>(0, decoder_layers - 1));
  const std::int64_t ngram_size = engram.integer("max_ngram_size", 2, XorColumns::kMaxNgramSize);
  const std::int64_t embed_per_ngram =
      engram.integer("n_embed_per_ngram", 1, kDimMax / XorColumns::kMaxNgramSize);
  if (std::ssize(hash.size_bases) != ngram_size - 1) {
    engram.fail(fmt::format("'engram.engram_vocab_size' has {} entries for n-grams of 2 to {}",
                            hash.size_bases.size(), ngram_size));
  }
  if (hash.heads_per_ngram != 0 && embed_per_ngram % hash.heads_per_ngram != 0) {
    engram.fail(fmt::format("'engram.n_embed_per_ngram' {} is not divisible by {} heads",
                            embed_per_ngram, hash.heads_per_ngram));
  }
  const EngramDemoLayer parts{
      .hidden = static_cast<std::int32_t>(backbone.integer("hidden_size", 1, kDimMax)),
      .stream_count = static_cast<std::int32_t>(backbone.integer("hc_mult", 1, kStreamMax)),
      .embed_dim = static_cast<std::int32_t>((ngram_size - 1) * embed_per_ngram),
      .tap_count = static_cast<std::int32_t>(engram.integer("kernel_size", 1, kTapMax, 4)),
      .dilation = static_cast<std::int32_t>(ngram_size),
      .eps = kNormEps,
      .conv_eps = kConvNormEps};
  if (std::adjacent_find(hash.layers.begin(), hash.layers.end(), std::greater_equal<>()) !=
      hash.layers.end()) {
    engram.fail("'engram.layer_ids' are not ascending");
  }
  PLE_TRY(engram.status());
  PLE_TRY(backbone.status());

  PLE_TRY_ASSIGN(const EngramHash::Layers layers, with_name(name, EngramHash::create_layers(hash)));
  ModelSpec model{.family = Family::engram_demo, .vocab_size = hash.vocab_size};
  for (std::size_t i = 0; i < layers.size(); ++i) {
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
  auto& parts = std::get<EngramDemoLayer>(layer.parts);
  PLE_TRY(bind_tensors(files, root + tail, tensor_slots(parts)));
  const std::string embedding = root + tail + "multi_head_embedding.";
  const auto& hash = static_cast<const EngramHash&>(*layer.hash);
  PLE_TRY(compare_constants(files, embedding + "offsets", hash.columns().offsets()));
  const std::int32_t dim = parts.embed_dim / hash.column_count();
  PLE_TRY_ASSIGN(layer.table, read_table(files, embedding + "embedding", hash.row_count(), dim));
  return {};
}

}  // namespace

const FamilyReader kEngramDemoReader = {matches, parse, bind};

std::vector<TensorSlot> tensor_slots(EngramDemoLayer& layer) {
  const auto streams = static_cast<std::size_t>(layer.stream_count);
  const std::int64_t hidden = layer.hidden;
  std::vector<TensorSlot> slots = {
      {&layer.value, "value_proj.weight", DType::bf16, {hidden, layer.embed_dim}},
      {&layer.value_bias, "value_proj.bias", DType::bf16, {hidden}},
      {&layer.conv,
       "short_conv.conv.weight",
       DType::bf16,
       {layer.stream_count * hidden, 1, layer.tap_count}},
  };
  for (auto* tensors :
       {&layer.key, &layer.key_bias, &layer.norm_key, &layer.norm_query, &layer.norm_conv}) {
    tensors->resize(streams);
  }
  for (std::size_t c = 0; c < streams; ++c) {
    slots.push_back({&layer.key[c],
                     fmt::format("key_projs.{}.weight", c),
                     DType::bf16,
                     {hidden, layer.embed_dim}});
    slots.push_back(
        {&layer.key_bias[c], fmt::format("key_projs.{}.bias", c), DType::bf16, {hidden}});
    slots.push_back({&layer.norm_key[c], fmt::format("norm1.{}.weight", c), DType::bf16, {hidden}});
    slots.push_back(
        {&layer.norm_query[c], fmt::format("norm2.{}.weight", c), DType::bf16, {hidden}});
    slots.push_back(
        {&layer.norm_conv[c], fmt::format("short_conv.norms.{}.weight", c), DType::bf16, {hidden}});
  }
  return slots;
}

void add_constants(Digest& digest, const EngramDemoLayer& layer) {
  digest.add(layer.dilation).add(std::bit_cast<std::uint32_t>(layer.eps));
  digest.add(std::bit_cast<std::uint32_t>(layer.conv_eps));
}

}  // namespace ple
