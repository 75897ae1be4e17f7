#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"

namespace ple {

// The numbers behind a hash, as checkpoints ship them; empty where a family has none.
struct HashConstants {
  std::vector<std::int64_t> multipliers;     // by look-back
  std::vector<std::int64_t> column_sizes;    // row ids of column i are column_offsets[i] +
  std::vector<std::int64_t> column_offsets;  //   [0, column_sizes[i])
};

// Token ids to row ids, for one layer: a pure function of a token and the few before it. Every
// family has one implementation. Immutable, so any number of threads may share one.
class RowHash {
 public:
  virtual ~RowHash() = default;
  RowHash(const RowHash&) = delete;
  RowHash& operator=(const RowHash&) = delete;

  // Row ids of tokens: out is [tokens.size(), column_count()]. history holds the ids right before
  // tokens[0], oldest first; only its last lookback() are read, and it may be shorter than that
  // only where the sequence starts inside it: there the family's own fill applies. Defined for
  // every id, also those that check() refuses (the reference's arithmetic on them is kept bit for
  // bit). kNoRow where the family reads no row. Never allocates.
  virtual void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
                       RowId* out) const = 0;

  // The same; a long text is cut into pieces that threads of the pool hash.
  void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens, RowId* out,
               ThreadPool& pool) const;

  virtual HashConstants constants() const { return {}; }

  // Refuses ids outside [0, vocab_size), naming the first one and its index in tokens. Dead tokens
  // pass. A hash that still needs its token map refuses everything.
  Status check(std::span<const TokenId> tokens) const;

  // Tokens before a position that its rows depend on.
  std::int32_t lookback() const { return traits_.lookback; }
  // Rows of a token.
  std::int32_t column_count() const { return traits_.column_count; }
  // Rows of the table; every id that row_ids gives is below it (or kNoRow).
  std::uint64_t row_count() const { return traits_.row_count; }
  std::int64_t vocab_size() const { return traits_.vocab_size; }
  // Whether a position with this id takes no part in the layer: kDeadToken, or another id that the
  // model marks such positions with, in a family that has dead tokens.
  bool is_dead(TokenId token) const {
    return traits_.has_dead_tokens && (token == kDeadToken || token == traits_.dead_token);
  }
  bool has_dead_tokens() const { return traits_.has_dead_tokens; }
  bool needs_token_map() const { return traits_.needs_token_map; }
  // A digest of every constant that decides the ids: equal digests mean equal functions.
  std::uint64_t identity() const { return traits_.identity; }

 protected:
  struct Traits {
    std::int32_t lookback = 0;
    std::int32_t column_count = 0;
    std::uint64_t row_count = 0;
    std::int64_t vocab_size = 0;
    bool has_dead_tokens = false;
    TokenId dead_token = kDeadToken;
    bool needs_token_map = false;
    std::uint64_t identity = 0;
  };
  explicit RowHash(const Traits& traits) : traits_(traits) {}
  const Traits& traits() const { return traits_; }

 private:
  Traits traits_;
};

}  // namespace ple
