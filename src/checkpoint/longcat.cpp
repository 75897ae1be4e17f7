#include <algorithm>
#include <variant>

#include "base/error.hpp"
#include "checkpoint/family.hpp"
#include "checkpoint/table_reader.hpp"
#include "ngram/longcat_hash.hpp"

// LongCat's n-gram input embedding (specification C): Flash-Lite, Next and 2.0.

namespace ple {
namespace {

// Each key has two names: the older models', and one with "oe".
struct Keys {
  const char* ratio;
  const char* ngram_size;
  const char* splits;
};
constexpr Keys kOldKeys = {"ngram_vocab_size_ratio", "emb_neighbor_num", "emb_split_num"};
constexpr Keys kNewKeys = {"oe_vocab_size_ratio", "oe_neighbor_num", "oe_split_num"};

const Json& section(const Json& config) {
  const Json& text = text_config(config, kOldKeys.ratio);
  return text.contains(kOldKeys.ratio) ? text : text_config(config, kNewKeys.ratio);
}

bool matches(const Json& config, std::string_view model_type) {
  const Json& text = section(config);
  return model_type.starts_with("longcat") &&
         (text.contains(kOldKeys.ratio) || text.contains(kNewKeys.ratio));
}

Result<ModelSpec> parse(const Json& json, const std::string& name) {
  ConfigReader reader(section(json), name);
  const Keys& keys = reader.has(kOldKeys.ratio) ? kOldKeys : kNewKeys;
  LongcatHash::Config hash;
  hash.vocab_size = reader.integer("vocab_size", 1, kTokenMax);
  hash.size_ratio = reader.number(keys.ratio);
  hash.ngram_size = reader.integer(keys.ngram_size, 2, LongcatHash::kNgramMax);
  hash.splits = reader.integer(keys.splits, 1, LongcatHash::kTableMax);
  const std::vector<std::int64_t> eos = reader.integers("eos_token_id", 0, kTokenMax);
  if (eos.empty()) reader.fail("'eos_token_id' is an empty list");
  const std::int64_t hidden = reader.integer("hidden_size", 1, kDimMax);
  hash.base = reader.integer("text_vocab_size", 1, kTokenMax, hash.vocab_size);
  // Only LongCat-Next is known to take ignored ids out of the hash; 2.0 lists 2 and 3, which are
  // then an EOS and an ordinary id.
  hash.zero_is_nothing = reader.has("text_vocab_size");
  if (hash.zero_is_nothing && reader.has("oe_ignored_token_ids")) {
    for (const std::int64_t token : reader.integers("oe_ignored_token_ids", 0, kTokenMax)) {
      hash.ignored.push_back(static_cast<TokenId>(token));
    }
    std::sort(hash.ignored.begin(), hash.ignored.end());
  }
  const std::int64_t tables = (hash.ngram_size - 1) * hash.splits;
  if (reader.status().is_ok() && hidden % tables != 0) {
    reader.fail(fmt::format("'hidden_size' {} is not divisible by {} tables", hidden, tables));
  }
  PLE_TRY(reader.status());
  hash.eos_token = eos[0];

  PLE_TRY_ASSIGN(auto created, with_name(name, LongcatHash::create(hash)));
  ModelSpec model{.family = Family::longcat, .vocab_size = hash.vocab_size};
  model.layers.push_back({.layer_index = 0,
                          .hash = std::move(created),
                          .table = {},
                          .parts = LongcatLayer{.vocab_size = hash.vocab_size,
                                                .hidden = static_cast<std::int32_t>(hidden),
                                                .table_count = static_cast<std::int32_t>(tables),
                                                .ignored_tokens = hash.ignored}});
  return model;
}

// Puts a table's rows behind those of the tables before it.
Status append_table(const TableSpec& next, std::int32_t number, TableSpec& all) {
  if (number == 0) {
    all = next;
    return {};
  }
  if (next.encoding.format != all.encoding.format || next.encoding.scale != all.encoding.scale) {
    return error(StatusCode::unsupported, "table {} is encoded unlike the tables before it",
                 number);
  }
  for (ShardExtent shard : next.shards) {
    shard.row_begin += all.row_count;
    all.shards.push_back(shard);
  }
  all.row_count += next.row_count;
  return {};
}

Status bind(const TensorFiles& files, LayerSpec& layer) {
  const std::string tail = "ngram_embeddings.";
  PLE_TRY_ASSIGN(const std::string root, find_root(files, tail));
  auto& parts = std::get<LongcatLayer>(layer.parts);
  std::vector<TensorSlot> slots = tensor_slots(parts);
  // The word embedding has an alias beside the tables.
  const bool has_alias = files.find(root + "embed_tokens.weight") == nullptr;
  slots[0].suffix = has_alias ? tail + "word_embeddings.weight" : "embed_tokens.weight";
  PLE_TRY(bind_tensors(files, root, slots));

  const std::vector<std::int64_t> sizes = static_cast<const LongcatHash&>(*layer.hash).moduli();
  for (std::int32_t i = 0; i < parts.table_count; ++i) {
    PLE_TRY_ASSIGN(const TableSpec table,
                   read_table(files, fmt::format("{}{}embedders.{}", root, tail, i),
                              static_cast<std::uint64_t>(sizes[static_cast<std::size_t>(i)]),
                              parts.hidden / parts.table_count));
    PLE_TRY(append_table(table, i, layer.table));
  }
  std::stable_sort(layer.table.shards.begin(), layer.table.shards.end(),
                   [](const ShardExtent& a, const ShardExtent& b) { return a.part < b.part; });
  return {};
}

}  // namespace

const FamilyReader kLongcatReader = {matches, parse, bind};

std::vector<TensorSlot> tensor_slots(LongcatLayer& layer) {
  const std::int64_t hidden = layer.hidden;
  std::vector<TensorSlot> slots = {
      {&layer.word_embedding, "embed_tokens.weight", DType::bf16, {layer.vocab_size, hidden}}};
  layer.projection.resize(static_cast<std::size_t>(layer.table_count));
  for (std::int32_t i = 0; i < layer.table_count; ++i) {
    slots.push_back({&layer.projection[static_cast<std::size_t>(i)],
                     fmt::format("ngram_embeddings.post_projs.{}.weight", i),
                     DType::bf16,
                     {hidden, hidden / layer.table_count}});
  }
  return slots;
}

void add_constants(Digest& digest, const LongcatLayer& layer) {
  digest.add(layer.table_count).add_all<TokenId>(layer.ignored_tokens);
}

}  // namespace ple
