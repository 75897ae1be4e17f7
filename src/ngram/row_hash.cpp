#include "ngram/row_hash.hpp"

#include <cstddef>

#include "base/error.hpp"

namespace ple {

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
