#include "ngram/longcat_hash.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/digest.hpp"
#include "base/error.hpp"
#include "ngram/token_window.hpp"

namespace ple {
namespace {

Status check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(StatusCode::invalid_argument, "{} is {}, outside [{}, {}]", name, value, least,
               most);
}

Status check_config(const LongcatHash::Config& config) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::int32_t>::max();
  PLE_TRY(check_range("the vocabulary size", config.vocab_size, 1, kMax32));
  PLE_TRY(check_range("the hash's vocabulary", config.base, 1, config.vocab_size));
  PLE_TRY(check_range("the n-gram size", config.ngram_size, 2, LongcatHash::kNgramMax));
  PLE_TRY(
      check_range("the number of tables of an order", config.splits, 1, LongcatHash::kTableMax));
  PLE_TRY(check_range("the EOS token", config.eos_token, 0, kMax32));
  if (config.size_ratio > 0.0 && config.size_ratio < 1e9) return {};
  return error(StatusCode::invalid_argument, "the vocabulary ratio is {}", config.size_ratio);
}

// Computed in double and truncated, as the reference does: the ratio need not be an integer.
Result<std::uint32_t> table_size(const LongcatHash::Config& config, std::int64_t table) {
  const double size =
      config.size_ratio * static_cast<double>(config.base) + static_cast<double>(2 * table) + 1.0;
  if (size >= 2.0 && size < static_cast<double>(kNoRow)) return static_cast<std::uint32_t>(size);
  return error(StatusCode::unsupported, "table {} has {} rows, outside [2, 2^32 - 1)", table,
               std::floor(size));
}

}  // namespace

Result<std::shared_ptr<const LongcatHash>> LongcatHash::create(const Config& config) {
  PLE_TRY(check_config(config));
  std::vector<Table> tables;
  std::vector<std::int64_t> powers;
  std::uint64_t rows = 0;
  for (std::int64_t table = 0; table < (config.ngram_size - 1) * config.splits; ++table) {
    PLE_TRY_ASSIGN(const std::uint32_t size, table_size(config, table));
    const auto lookback = static_cast<std::int32_t>(1 + table / config.splits);
    tables.push_back({FloorModulus(size), static_cast<RowId>(rows), lookback, powers.size()});
    std::int64_t power = 1;
    for (std::int32_t k = 0; k < lookback; ++k) {
      power = power * config.base % size;
      powers.push_back(power);
    }
    rows += size;
    if (rows >= kNoRow) {
      return error(StatusCode::unsupported, "the tables have {} rows or more, beyond 2^32 - 1",
                   rows);
    }
  }
  // Sums of ngram_size products stay below 2^63, so that they may be reduced once at the end.
  const double sum_max = static_cast<double>(config.ngram_size) *
                         static_cast<double>(config.vocab_size) *
                         static_cast<double>(tables.back().modulus.divisor());
  if (sum_max >= 0x1p62) {
    return error(StatusCode::unsupported, "{} ids below {} times {} rows exceed 62 bits",
                 config.ngram_size, config.vocab_size, tables.back().modulus.divisor());
  }
  Digest digest;
  digest.add("longcat").add(config.vocab_size).add(config.base).add(config.ngram_size);
  digest.add(std::bit_cast<std::uint64_t>(config.size_ratio)).add(config.splits);
  digest.add(config.eos_token).add(config.zero_is_nothing).add_all<TokenId>(config.ignored);
  const Traits traits{.lookback = static_cast<std::int32_t>(config.ngram_size - 1),
                      .column_count = static_cast<std::int32_t>(tables.size()),
                      .row_count = rows,
                      .vocab_size = config.vocab_size,
                      .identity = digest.value()};
  return std::shared_ptr<const LongcatHash>(
      new LongcatHash(traits, config, std::move(tables), std::move(powers)));
}

std::int64_t LongcatHash::digit(TokenId token) const {
  const auto& ignored = config_.ignored;
  if (ignored.empty() || token < ignored.front() || token > ignored.back()) return token;
  return std::binary_search(ignored.begin(), ignored.end(), token) ? 0 : token;
}

void LongcatHash::row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
                          RowId* out) const {
  const TokenWindow window(history, tokens);
  std::array<std::int64_t, kNgramMax> digits;
  for (std::ptrdiff_t position = 0; position < std::ssize(tokens); ++position) {
    digits[0] = digit(window[position]);
    // An EOS ends its own segment, so it still sees what lies before; a nothing does not.
    bool hidden = config_.zero_is_nothing && digits[0] == 0;
    for (std::int32_t k = 1; k <= lookback(); ++k) {
      std::int64_t earlier = 0;
      if (!hidden && window.has(position - k)) earlier = digit(window[position - k]);
      hidden = hidden || is_boundary(earlier);
      digits[static_cast<std::size_t>(k)] = hidden ? 0 : earlier;
    }
    for (const Table& table : tables_) {
      auto sum = static_cast<std::uint64_t>(digits[0]);
      const std::int64_t* power = powers_.data() + table.power_begin;
      for (std::int32_t k = 1; k <= table.lookback; ++k) {
        sum += static_cast<std::uint64_t>(digits[static_cast<std::size_t>(k)]) *
               static_cast<std::uint64_t>(*power++);
      }
      const std::uint32_t id = table.modulus(static_cast<std::int64_t>(sum));
      *out++ = id == 0 && config_.zero_is_nothing ? kNoRow : table.offset + id;
    }
  }
}

std::vector<std::int64_t> LongcatHash::moduli() const {
  std::vector<std::int64_t> moduli;
  for (const Table& table : tables_) moduli.push_back(table.modulus.divisor());
  return moduli;
}

std::vector<std::int64_t> LongcatHash::offsets() const {
  std::vector<std::int64_t> offsets;
  for (const Table& table : tables_) offsets.push_back(table.offset);
  return offsets;
}

}  // namespace ple
