#include "ngram/qwen4_exp_hash.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "ngram/primes.hpp"
#include "ngram/token_window.hpp"

namespace ple {
namespace {

constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15;
constexpr std::uint64_t kLayerStride = 10007;

// Far above every known model; they keep a hostile config from searching primes for minutes.
constexpr std::int64_t kLayerMax = 64;
constexpr std::int64_t kPrimeMax = 8192;

std::uint64_t splitmix64(std::uint64_t value) {
  value += kGolden;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
  return value ^ (value >> 31);
}

// Odd numbers so small that a legal id's product stays below 2^63.
std::vector<std::int64_t> derive_multipliers(const Qwen4ExpHash::Config& config) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const auto half =
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, kMax / config.vocab_size / 2));
  const std::uint64_t base = static_cast<std::uint64_t>(config.seed) +
                             kLayerStride * static_cast<std::uint64_t>(config.layer_position);
  std::vector<std::int64_t> multipliers;
  for (std::int64_t i = 0; i < config.ngram_size; ++i) {
    const std::uint64_t mixed = splitmix64(base + kGolden * static_cast<std::uint64_t>(i + 1));
    multipliers.push_back(static_cast<std::int64_t>(2 * (mixed % half) + 1));
  }
  return multipliers;
}

// One ascending sequence of primes serves every PLE layer of the model in turn.
Result<std::vector<std::uint32_t>> derive_sizes(const Qwen4ExpHash::Config& config) {
  const std::int64_t columns = (config.ngram_size - 1) * config.heads_per_ngram;
  std::vector<std::uint32_t> sizes;
  auto prime = static_cast<std::uint32_t>(std::max<std::int64_t>(config.size_base, 1) - 1);
  for (std::int64_t i = 0; i < (config.layer_position + 1) * columns; ++i) {
    prime = next_prime(prime);
    if (prime == 0) {
      return error(StatusCode::unsupported, "no {} primes from {} on fit 32 bits",
                   (config.layer_position + 1) * columns, config.size_base);
    }
    if (i >= config.layer_position * columns) sizes.push_back(prime);
  }
  return sizes;
}

Status check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(StatusCode::invalid_argument, "{} is {}, outside [{}, {}]", name, value, least,
               most);
}

Status check_config(const Qwen4ExpHash::Config& config) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::int32_t>::max();
  PLE_TRY(check_range("vocab_size", config.vocab_size, 1, kMax32));
  PLE_TRY(check_range("ngram_size", config.ngram_size, 2, XorColumns::kMaxNgramSize));
  PLE_TRY(check_range("heads_per_ngram", config.heads_per_ngram, 1, XorColumns::kMaxHeads));
  PLE_TRY(check_range("ngram_vocab_size_base", config.size_base, 0, kNoRow));
  PLE_TRY(check_range("make_ngram_vocab_size_divisible_by", config.row_divisor, 1, kMax32));
  PLE_TRY(check_range("eos_token_id", config.eos_token, 0, kMax32));
  PLE_TRY(check_range("the layer's place among the PLE layers", config.layer_position, 0,
                      kLayerMax - 1));
  return check_range("the number of heads up to the layer",
                     (config.layer_position + 1) * (config.ngram_size - 1) * config.heads_per_ngram,
                     1, kPrimeMax);
}

}  // namespace

Result<std::shared_ptr<const Qwen4ExpHash>> Qwen4ExpHash::create(const Config& config) {
  PLE_TRY(check_config(config));
  PLE_TRY_ASSIGN(const std::vector<std::uint32_t> sizes, derive_sizes(config));
  PLE_TRY_ASSIGN(XorColumns columns, XorColumns::create(derive_multipliers(config), sizes));

  const auto divisor = static_cast<std::uint64_t>(config.row_divisor);
  const std::uint64_t rows = (columns.size_sum() + divisor - 1) / divisor * divisor;
  if (rows >= kNoRow) {
    return error(StatusCode::unsupported, "{} padded rows are beyond 2^32 - 1", rows);
  }
  Digest digest;
  digest.add("qwen4_exp").add(config.vocab_size).add(config.eos_token).add(rows);
  columns.add_to(digest);
  const Traits traits{.lookback = columns.ngram_size() - 1,
                      .column_count = columns.column_count(),
                      .row_count = rows,
                      .vocab_size = config.vocab_size,
                      .has_dead_tokens = false,
                      .identity = digest.value()};
  return std::shared_ptr<const Qwen4ExpHash>(
      new Qwen4ExpHash(traits, std::move(columns), static_cast<TokenId>(config.eos_token)));
}

void Qwen4ExpHash::row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
                           RowId* out) const {
  const TokenWindow window(history, tokens);
  const std::int32_t ngram_size = columns_.ngram_size();
  std::array<std::int64_t, XorColumns::kMaxNgramSize> codes;
  for (std::ptrdiff_t position = 0; position < std::ssize(tokens); ++position) {
    codes[0] = window[position];
    // The walk goes back from the token: the first EOS it meets hides everything before. The token
    // itself never does.
    bool cut = false;
    for (std::int32_t k = 1; k < ngram_size; ++k) {
      cut = cut || !window.has(position - k) || window[position - k] == eos_token_;
      codes[static_cast<std::size_t>(k)] = cut ? eos_token_ : window[position - k];
    }
    columns_.row_ids(codes.data(), out);
    out += column_count();
  }
}

}  // namespace ple
