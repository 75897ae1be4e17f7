#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ngram/row_hash.hpp"

namespace ple {

// Row ids of Gemma 3n and 4 (specification D): a token's own row, and a stand-in's for ids that
// mark images, audio or video.
class GemmaHash final : public RowHash {
 public:
  struct Config {
    std::int64_t vocab_size = 0;
    std::int64_t row_count = 0;
    RowId stand_in = 0;  // also the row of ids beyond the table
    std::vector<TokenId> placeholders;
  };

  static Result<std::shared_ptr<const GemmaHash>> create(const Config& config);

  using RowHash::row_ids;
  void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
               RowId* out) const override;

 private:
  GemmaHash(const Traits& traits, RowId stand_in, std::vector<TokenId> placeholders)
      : RowHash(traits), stand_in_(stand_in), placeholders_(std::move(placeholders)) {}

  RowId stand_in_;
  std::vector<TokenId> placeholders_;
};

}  // namespace ple
