#include "ngram/row_hash.hpp"

#include <cstddef>

#include "base/error.hpp"

namespace ple {

void RowHash::row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens, RowId* out,
                      ThreadPool& pool) const {
  constexpr std::size_t kPieceTokens = 512;
  const auto lookback = static_cast<std::size_t>(traits_.lookback);
  if (tokens.size() < 2 * kPieceTokens || lookback > kPieceTokens) {
    return row_ids(history, tokens, out);
  }
  const std::size_t piece_count = tokens.size() / kPieceTokens;
  pool.parallel_for(static_cast<std::int64_t>(piece_count), [&](std::int64_t index) {
    const auto piece = static_cast<std::size_t>(index);
    const std::size_t begin = piece * kPieceTokens;
    const std::size_t end = piece + 1 == piece_count ? tokens.size() : begin + kPieceTokens;
    row_ids(piece == 0 ? history : tokens.subspan(begin - lookback, lookback),
            tokens.subspan(begin, end - begin),
            out + begin * static_cast<std::size_t>(traits_.column_count));
  });
}

Status RowHash::check(std::span<const TokenId> tokens) const {
  if (traits_.needs_token_map && !tokens.empty()) {
    return error(StatusCode::wrong_state, "the model hashes with a token map, and none was given");
  }
  for (std::size_t index = 0; index < tokens.size(); ++index) {
    const TokenId token = tokens[index];
    if (token >= 0 && token < traits_.vocab_size) continue;
    if (is_dead(token)) continue;
    return error(StatusCode::invalid_argument,
                 "token {} at index {} is outside the vocabulary [0, {})", token, index,
                 traits_.vocab_size);
  }
  return {};
}

}  // namespace ple
