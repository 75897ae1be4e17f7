#include "ngram/gemma_hash.hpp"

#include <algorithm>
#include <limits>

#include "base/digest.hpp"
#include "base/error.hpp"

namespace ple {

Result<std::shared_ptr<const GemmaHash>> GemmaHash::create(const Config& config) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::int32_t>::max();
  if (config.vocab_size < 1 || config.vocab_size > kMax32) {
    return error(StatusCode::invalid_argument, "the vocabulary size is {}", config.vocab_size);
  }
  if (config.row_count < 1 || config.row_count > kMax32 || config.stand_in >= config.row_count) {
    return error(StatusCode::invalid_argument, "the table has {} rows, the stand-in is row {}",
                 config.row_count, config.stand_in);
  }
  Digest digest;
  digest.add("gemma").add(config.vocab_size).add(config.row_count).add(config.stand_in);
  digest.add_all<TokenId>(config.placeholders);
  const Traits traits{.lookback = 0,
                      .column_count = 1,
                      .row_count = static_cast<std::uint64_t>(config.row_count),
                      .vocab_size = config.vocab_size,
                      .identity = digest.value()};
  return std::shared_ptr<const GemmaHash>(
      new GemmaHash(traits, config.stand_in, config.placeholders));
}

void GemmaHash::row_ids(std::span<const TokenId>, std::span<const TokenId> tokens,
                        RowId* out) const {
  for (const TokenId token : tokens) {
    const auto row = static_cast<RowId>(token);  // a negative id is beyond every table
    const bool has_row = row < row_count() && std::find(placeholders_.begin(), placeholders_.end(),
                                                        token) == placeholders_.end();
    *out++ = has_row ? row : stand_in_;
  }
}

}  // namespace ple
