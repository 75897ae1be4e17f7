#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ngram/floor_modulus.hpp"
#include "ngram/row_hash.hpp"

namespace ple {

// Row ids of LongCat (specification C): table i takes the last ids as digits of a number to the
// base of the vocabulary, modulo its own size. What an EOS hides, or the sequence's start lacks,
// counts as 0. The tables lie one behind the other: table i's rows begin where those before end.
class LongcatHash final : public RowHash {
 public:
  static constexpr std::int64_t kNgramMax = 16;
  static constexpr std::int64_t kTableMax = 1024;

  struct Config {
    std::int64_t vocab_size = 0;  // legal ids
    std::int64_t base = 0;        // the vocabulary of the hash
    double size_ratio = 0.0;      // of a table's rows to base
    std::int64_t ngram_size = 4;
    std::int64_t splits = 4;  // tables of one order
    std::int64_t eos_token = 2;
    // LongCat-Next: ignored ids count as 0, a 0 hides what lies before it and sees nothing itself,
    // and a hash of 0 reads no row. ignored is ascending.
    bool zero_is_nothing = false;
    std::vector<TokenId> ignored;
  };

  static Result<std::shared_ptr<const LongcatHash>> create(const Config& config);

  using RowHash::row_ids;
  void row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
               RowId* out) const override;

  HashConstants constants() const override { return {{}, moduli(), offsets()}; }

  std::vector<std::int64_t> moduli() const;   // by table
  std::vector<std::int64_t> offsets() const;  // by table: its first row

 private:
  struct Table {
    FloorModulus modulus;
    RowId offset;
    std::int32_t lookback;    // its order - 1
    std::size_t power_begin;  // in powers_: base^1, base^2 .. base^lookback, modulo its size
  };

  LongcatHash(const Traits& traits, Config config, std::vector<Table> tables,
              std::vector<std::int64_t> powers)
      : RowHash(traits),
        config_(std::move(config)),
        tables_(std::move(tables)),
        powers_(std::move(powers)) {}

  // What an id counts as: itself, or 0 where it is ignored.
  std::int64_t digit(TokenId token) const;
  bool is_boundary(std::int64_t digit) const {
    return digit == config_.eos_token || (config_.zero_is_nothing && digit == 0);
  }

  Config config_;
  std::vector<Table> tables_;
  std::vector<std::int64_t> powers_;
};

}  // namespace ple
