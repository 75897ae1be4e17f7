#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/types.hpp"
#include "ngram/row_hash.hpp"
#include "support/random.hpp"

namespace ple::test {

using Tokens = std::vector<TokenId>;
using Rows = std::vector<std::vector<RowId>>;

inline Tokens slice(const Tokens& tokens, std::size_t begin, std::size_t end) {
  return {tokens.begin() + static_cast<std::ptrdiff_t>(begin),
          tokens.begin() + static_cast<std::ptrdiff_t>(end)};
}

// Rows of tokens [begin, end) of a sequence, its earlier tokens being the history.
inline Rows rows_between(const RowHash& hash, const Tokens& sequence, std::size_t begin,
                         std::size_t end) {
  const auto lookback = static_cast<std::size_t>(hash.lookback());
  const Tokens history = slice(sequence, begin - std::min(begin, lookback), begin);
  const auto columns = static_cast<std::size_t>(hash.column_count());
  std::vector<RowId> flat((end - begin) * columns);
  hash.row_ids(history, slice(sequence, begin, end), flat.data());
  Rows rows;
  for (std::size_t i = 0; i < end - begin; ++i) {
    const auto first = flat.begin() + static_cast<std::ptrdiff_t>(i * columns);
    rows.emplace_back(first, first + static_cast<std::ptrdiff_t>(columns));
  }
  return rows;
}

inline Rows rows_of(const RowHash& hash, const Tokens& sequence) {
  return rows_between(hash, sequence, 0, sequence.size());
}

// Specification E.1: one call, single tokens and random chunks give the same rows.
inline void expect_chunks_equal(const RowHash& hash, const Tokens& sequence, Random& random) {
  const Rows whole = rows_of(hash, sequence);
  for (int round = 0; round < 8; ++round) {
    Rows chunked;
    while (chunked.size() < sequence.size()) {
      const auto left = static_cast<std::int64_t>(sequence.size() - chunked.size());
      const std::int64_t most = round == 0 ? 1 : std::min<std::int64_t>(left, 1 + round * round);
      const auto count = static_cast<std::size_t>(random.between(1, most));
      const Rows part = rows_between(hash, sequence, chunked.size(), chunked.size() + count);
      chunked.insert(chunked.end(), part.begin(), part.end());
    }
    ASSERT_EQ(chunked, whole);
  }
}

}  // namespace ple::test
