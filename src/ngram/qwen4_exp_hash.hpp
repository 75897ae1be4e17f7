#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ngram/row_hash.hpp"
#include "ngram/xor_columns.hpp"

namespace ple {

// Row ids of family qwen4_exp (specification A.3 and A.4): raw token ids, an EOS cuts what lies
// before it, and EOS fills what the cut or the sequence's start leaves empty.
class Qwen4ExpHash final : public RowHash {
 public:
  struct Config {
    std::int64_t vocab_size = 0;
    std::int64_t ngram_size = 3;
    std::int64_t heads_per_ngram = 8;
    std::int64_t size_base = 20'000'000;  // the head sizes are the primes from here on
    std::int64_t row_divisor = 128;       // the row count is padded to a multiple of it
    std::int64_t seed = 1234;
    std::int64_t eos_token = 0;
    std::int64_t layer_position = 0;  // among the model's PLE layers, not the decoder layer
  };

  // Derives multipliers and head sizes. Takes microseconds.
  static Result<std::shared_ptr<const Qwen4ExpHash>> create(const Config& config);

  using RowHash::row_ids;
  void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
               RowId* out) const override;

  HashConstants constants() const override {
    return {columns_.multipliers(), columns_.sizes(), columns_.offsets()};
  }

  const XorColumns& columns() const { return columns_; }

 private:
  Qwen4ExpHash(const Traits& traits, XorColumns columns, TokenId eos_token)
      : RowHash(traits), columns_(std::move(columns)), eos_token_(eos_token) {}

  XorColumns columns_;
  TokenId eos_token_;
};

}  // namespace ple
