#include <bit>
#include <cmath>
#include <variant>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/table_reader.hpp"
#include "ngram/gemma_hash.hpp"

// Gemma 3n and Gemma 4 per-layer embeddings (specification D).

namespace ple {
namespace {

constexpr const char* kWidthKey = "hidden_size_per_layer_input";

bool is_gemma_3n(std::string_view model_type) { return model_type.starts_with("gemma3n"); }

bool matches(const Json&, std::string_view model_type) {
  return is_gemma_3n(model_type) || model_type == "gemma4" || model_type == "gemma4_text";
}

Result<ModelSpec> parse(const Json& json, const std::string& name) {
  ConfigReader top(json, name);
  ConfigReader reader(text_config(json, kWidthKey), name);
  const bool is_3n = is_gemma_3n(top.text("model_type", ""));
  const std::int64_t width = reader.integer(kWidthKey, 0, kDimMax, is_3n ? 256 : 0);
  const std::int64_t layers = reader.integer("num_hidden_layers", 1, kLayerMax);
  const GemmaLayer parts{
      .hidden = static_cast<std::int32_t>(reader.integer("hidden_size", 1, kDimMax)),
      .layer_count = static_cast<std::int32_t>(layers),
      .layer_dim = static_cast<std::int32_t>(width),
      .eps = static_cast<float>(reader.number("rms_norm_eps", 1e-6)),
      .scalars_in_bf16 = is_3n};
  GemmaHash::Config hash;
  hash.row_count = reader.integer("vocab_size_per_layer_input", 1, kTokenMax, 262144);
  hash.vocab_size = reader.integer("vocab_size", 1, kTokenMax);
  if (!is_3n) {
    // Placeholders read the pad's row; there is no other stand-in for ids beyond the table.
    hash.vocab_size = std::min(hash.vocab_size, hash.row_count);
    hash.stand_in = static_cast<RowId>(reader.integer("pad_token_id", 0, kTokenMax, 0));
    for (const char* key : {"image_token_id", "audio_token_id", "video_token_id"}) {
      if (top.has(key)) {
        hash.placeholders.push_back(static_cast<TokenId>(top.integer(key, 0, kTokenMax)));
      }
    }
  }
  if (width == 0) {
    reader.fail(fmt::format("'{}' is 0: the model has no per-layer embeddings", kWidthKey));
  }
  if (width * layers > kDimMax) {
    reader.fail(fmt::format("rows of {} layers of {} elements are too long", layers, width));
  }
  if (!(parts.eps > 0.0F) || !std::isfinite(parts.eps)) {
    reader.fail(fmt::format("'rms_norm_eps' is {}", parts.eps));
  }
  PLE_TRY(top.status());
  PLE_TRY(reader.status());

  PLE_TRY_ASSIGN(auto created, with_name(name, GemmaHash::create(hash)));
  ModelSpec model{.family = Family::gemma, .vocab_size = hash.vocab_size};
  model.layers.push_back(
      {.layer_index = 0, .hash = std::move(created), .table = {}, .parts = parts});
  return model;
}

Status bind(const TensorFiles& files, LayerSpec& layer) {
  const std::string name = "embed_tokens_per_layer";
  PLE_TRY_ASSIGN(const std::string root, find_root(files, name + "."));
  auto& parts = std::get<GemmaLayer>(layer.parts);
  PLE_TRY(bind_tensors(files, root, tensor_slots(parts)));
  PLE_TRY_ASSIGN(layer.table, read_table(files, root + name, layer.hash->row_count(),
                                         parts.layer_count * parts.layer_dim));
  return {};
}

}  // namespace

const FamilyReader kGemmaReader = {matches, parse, bind};

std::vector<TensorSlot> tensor_slots(GemmaLayer& layer) {
  const std::int64_t width = std::int64_t{layer.layer_count} * layer.layer_dim;
  return {
      {&layer.projection, "per_layer_model_projection.weight", DType::bf16, {width, layer.hidden}},
      {&layer.projection_norm, "per_layer_projection_norm.weight", DType::bf16, {layer.layer_dim}},
  };
}

void add_constants(Digest& digest, const GemmaLayer& layer) {
  digest.add(layer.scalars_in_bf16).add(std::bit_cast<std::uint32_t>(layer.eps));
}

}  // namespace ple
