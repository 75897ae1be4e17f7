#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "ngram/row_hash.hpp"
#include "ngram/xor_columns.hpp"

namespace ple {

// Row ids of DeepSeek Engram (specification B): codes of a token map instead of raw ids, no EOS
// rule, and the code of the pad token where nothing precedes. In V4.1 dead tokens take no part:
// they, and what lies before them, are pads to a hash. The v1 demo has none, and lets negative ids
// past its map.
class EngramHash final : public RowHash {
 public:
  struct Config {
    std::int64_t vocab_size = 0;
    std::int64_t code_count = 0;           // of the token map
    std::vector<std::int64_t> size_bases;  // by order: where the search for its primes begins
    std::int64_t heads_per_ngram = 8;
    std::int64_t pad_token = 2;
    std::int64_t seed = 0;
    std::vector<std::int64_t> layers;  // 0-based decoder layers, in the order that consumes primes
    bool has_dead_tokens = true;
    TokenId dead_token = kDeadToken;  // an id that also marks dead positions (an image's)
  };
  using Layers = std::vector<std::shared_ptr<const EngramHash>>;

  // The hashes of config.layers. A prime is used once in the whole model, so all layers are derived
  // together. They lack the token map: check() refuses every token until with_token_map.
  static Result<Layers> create_layers(const Config& config);

  // The same hash over this map; refused when it does not fit vocab_size and code_count.
  Result<std::shared_ptr<const EngramHash>> with_token_map(std::span<const TokenId> codes) const;

  // Without a map, ids are codes.
  using RowHash::row_ids;
  void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
               RowId* out) const override;

  HashConstants constants() const override {
    return {columns_.multipliers(), columns_.sizes(), columns_.offsets()};
  }

  const XorColumns& columns() const { return columns_; }

 private:
  EngramHash(const Traits& traits, XorColumns columns, std::int64_t code_count, TokenId pad_token,
             std::vector<TokenId> codes)
      : RowHash(traits),
        columns_(std::move(columns)),
        code_count_(code_count),
        pad_token_(pad_token),
        codes_(std::move(codes)) {}

  std::int64_t code_of(TokenId token) const {
    const auto index = static_cast<std::uint32_t>(token);  // a negative id is beyond every map
    return index < codes_.size() ? codes_[index] : token;
  }

  XorColumns columns_;
  std::int64_t code_count_;
  TokenId pad_token_;
  std::vector<TokenId> codes_;  // the token map; empty until there is one
};

}  // namespace ple
