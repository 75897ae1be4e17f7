#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ngram/qwen4_exp_hash.hpp"
#include "support/safetensors_file.hpp"
#include "support/temp_directory.hpp"

namespace ple::test {

// A qwen4_exp checkpoint small enough to write in every test: 88 rows of 3 elements, 4 columns,
// hidden 5, 2 streams, one layer with a memory (decoder layer 1).
struct SmallQwen4Exp {
  nlohmann::json config = {{"model_type", "qwen4_exp_text"},
                           {"vocab_size", 64},
                           {"hidden_size", 5},
                           {"num_hidden_layers", 3},
                           {"hc_count", 2},
                           {"ple_layer_ids", {2}},
                           {"ple_embed_dim", 12},
                           {"ngram_size", 3},
                           {"heads_per_ngram", 2},
                           {"ngram_vocab_size_base", 17},
                           {"make_ngram_vocab_size_divisible_by", 4},
                           {"eos_token_id", 1}};
  std::string prefix = "model.layers.1.ple.";
  std::int64_t shard_rows = 30;  // shards of 30, 30 and 28 rows

  static std::shared_ptr<const Qwen4ExpHash> hash() {
    return Qwen4ExpHash::create({.vocab_size = 64,
                                 .heads_per_ngram = 2,
                                 .size_base = 17,
                                 .row_divisor = 4,
                                 .eos_token = 1})
        .value();
  }

  std::string table_name() const { return prefix + "ple_embedding.ngram_embedding"; }

  // Row r of the table: every byte is r.
  static std::string row_bytes(std::int64_t begin, std::int64_t end, int bytes_per_row) {
    std::string bytes;
    for (std::int64_t row = begin; row < end; ++row) {
      bytes.append(static_cast<std::size_t>(bytes_per_row), static_cast<char>(row));
    }
    return bytes;
  }

  std::vector<FileTensor> table(DType dtype = DType::bf16) const {
    const int bytes_per_row = 3 * static_cast<int>(dtype_bits(dtype)) / 8;
    std::vector<FileTensor> shards;
    for (std::int64_t begin = 0, number = 0; begin < 88; begin += shard_rows, ++number) {
      const std::int64_t end = std::min<std::int64_t>(begin + shard_rows, 88);
      shards.push_back({table_name() + ".shard_" + std::to_string(number) + ".weight",
                        dtype,
                        {end - begin, 3},
                        row_bytes(begin, end, bytes_per_row)});
    }
    return shards;
  }

  std::vector<FileTensor> dense() const {
    return {filled_tensor(prefix + "key_proj.weight", DType::bf16, {10, 12}),
            filled_tensor(prefix + "value_proj.weight", DType::bf16, {5, 12}),
            filled_tensor(prefix + "norm_key.weight", DType::bf16, {10}),
            filled_tensor(prefix + "norm_query.weight", DType::bf16, {10}),
            filled_tensor(prefix + "norm_conv.weight", DType::bf16, {10}),
            filled_tensor(prefix + "conv1d.weight", DType::bf16, {10, 1, 4})};
  }

  std::vector<FileTensor> constants() const {
    const auto owner = hash();
    const XorColumns& columns = owner->columns();
    const std::string embedding = prefix + "ple_embedding.";
    return {tensor_of(embedding + "layer_multipliers", DType::i64, {3}, columns.multipliers()),
            tensor_of(embedding + "ngram_heads_vocab_sizes", DType::i64, {4}, columns.sizes()),
            tensor_of(embedding + "ngram_heads_offsets", DType::i64, {4}, columns.offsets())};
  }

  // Writes the config and one file with these tensors.
  void write(const TempDirectory& directory, const std::vector<FileTensor>& tensors) const {
    directory.write("config.json", config.dump());
    directory.write("model.safetensors", safetensors_bytes(tensors));
  }
};

inline std::vector<FileTensor> operator+(std::vector<FileTensor> a,
                                         const std::vector<FileTensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace ple::test
