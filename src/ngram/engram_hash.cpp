#include "ngram/engram_hash.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <unordered_set>

#include "base/error.hpp"
#include "ngram/pcg64.hpp"
#include "ngram/primes.hpp"
#include "ngram/token_window.hpp"

namespace ple {
namespace {

constexpr std::int64_t kLayerStride = 10007;
constexpr std::int64_t kLayerMax = 64;
constexpr std::int64_t kPrimeMax = 8192;

std::vector<std::int64_t> derive_multipliers(const EngramHash::Config& config, std::int64_t layer) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  const auto bound = static_cast<std::uint64_t>(kMax / config.code_count / 2);
  Pcg64 random(static_cast<std::uint64_t>(config.seed + kLayerStride * layer));
  std::vector<std::int64_t> multipliers;
  for (std::size_t i = 0; i <= config.size_bases.size(); ++i) {
    multipliers.push_back(static_cast<std::int64_t>(2 * random.below(bound) + 1));
  }
  return multipliers;
}

// The next primes from each order's base on that no head of the model has used.
Result<std::vector<std::uint32_t>> derive_sizes(const EngramHash::Config& config,
                                                std::unordered_set<std::uint32_t>& used) {
  std::vector<std::uint32_t> sizes;
  for (const std::int64_t base : config.size_bases) {
    auto prime = static_cast<std::uint32_t>(std::max<std::int64_t>(base, 1) - 1);
    for (std::int64_t head = 0; head < config.heads_per_ngram; ++head) {
      do {
        prime = next_prime(prime);
      } while (used.contains(prime));
      if (prime == 0) {
        return error(StatusCode::unsupported, "no {} unused primes from {} on fit 32 bits",
                     config.heads_per_ngram, base);
      }
      used.insert(prime);
      sizes.push_back(prime);
    }
  }
  return sizes;
}

Status check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return {};
  return error(StatusCode::invalid_argument, "{} is {}, outside [{}, {}]", name, value, least,
               most);
}

Status check_config(const EngramHash::Config& config) {
  constexpr std::int64_t kMax32 = std::numeric_limits<std::int32_t>::max();
  // More codes would bring the bound of the multipliers to 2^32, where numpy draws otherwise.
  constexpr std::int64_t kCodeMax = 1 << 28;
  const auto orders = static_cast<std::int64_t>(config.size_bases.size());
  const auto layers = static_cast<std::int64_t>(config.layers.size());
  PLE_TRY(check_range("the vocabulary size", config.vocab_size, 1, kMax32));
  PLE_TRY(check_range("the compressed vocabulary size", config.code_count, 1,
                      std::min(kCodeMax, config.vocab_size)));
  PLE_TRY(check_range("the n-gram size", orders + 1, 2, XorColumns::kMaxNgramSize));
  PLE_TRY(check_range("the number of heads", config.heads_per_ngram, 1, XorColumns::kMaxHeads));
  PLE_TRY(check_range("the pad token", config.pad_token, 0, config.vocab_size - 1));
  PLE_TRY(check_range("the seed", config.seed, 0, std::numeric_limits<std::int64_t>::max() / 2));
  PLE_TRY(check_range("the number of layers", layers, 1, kLayerMax));
  PLE_TRY(check_range("the number of all heads", layers * orders * config.heads_per_ngram, 1,
                      kPrimeMax));
  for (const std::int64_t base : config.size_bases) {
    PLE_TRY(check_range("the n-gram vocabulary size", base, 0, kNoRow));
  }
  for (const std::int64_t layer : config.layers) {
    PLE_TRY(check_range("a layer", layer, 0, kMax32));
  }
  return {};
}

// One code for each token, and each code for some token.
Status check_token_map(std::span<const TokenId> codes, std::int64_t token_count,
                       std::int64_t code_count) {
  if (std::ssize(codes) != token_count) {
    return error(StatusCode::invalid_argument, "the token map has {} entries, the vocabulary {}",
                 codes.size(), token_count);
  }
  std::vector<bool> is_used(static_cast<std::size_t>(code_count));
  for (std::size_t token = 0; token < codes.size(); ++token) {
    const TokenId code = codes[token];
    if (code < 0 || code >= code_count) {
      return error(StatusCode::invalid_argument,
                   "the token map gives token {} code {}, outside [0, {})", token, code,
                   code_count);
    }
    is_used[static_cast<std::size_t>(code)] = true;
  }
  const std::int64_t used = std::count(is_used.begin(), is_used.end(), true);
  if (used == code_count) return {};
  return error(StatusCode::invalid_argument, "the token map uses {} codes, the model has {}", used,
               code_count);
}

}  // namespace

Result<EngramHash::Layers> EngramHash::create_layers(const Config& config) {
  PLE_TRY(check_config(config));
  std::unordered_set<std::uint32_t> used;
  Layers layers;
  for (const std::int64_t layer : config.layers) {
    PLE_TRY_ASSIGN(const std::vector<std::uint32_t> sizes, derive_sizes(config, used));
    PLE_TRY_ASSIGN(XorColumns columns,
                   XorColumns::create(derive_multipliers(config, layer), sizes));
    Digest digest;
    digest.add("engram").add(config.vocab_size).add(config.pad_token);
    digest.add(config.has_dead_tokens).add(config.dead_token);
    columns.add_to(digest);
    const Traits traits{.lookback = columns.ngram_size() - 1,
                        .column_count = columns.column_count(),
                        .row_count = columns.size_sum(),
                        .vocab_size = config.vocab_size,
                        .has_dead_tokens = config.has_dead_tokens,
                        .dead_token = config.dead_token,
                        .needs_token_map = true,
                        .identity = digest.value()};
    layers.push_back(std::shared_ptr<const EngramHash>(
        new EngramHash(traits, std::move(columns), config.code_count,
                       static_cast<TokenId>(config.pad_token), {})));
  }
  return layers;
}

Result<std::shared_ptr<const EngramHash>> EngramHash::with_token_map(
    std::span<const TokenId> codes) const {
  PLE_TRY(check_token_map(codes, vocab_size(), code_count_));
  Traits mapped = traits();
  mapped.needs_token_map = false;
  mapped.identity = Digest().add(identity()).add_all<TokenId>(codes).value();
  return std::shared_ptr<const EngramHash>(
      new EngramHash(mapped, columns_, code_count_, pad_token_, {codes.begin(), codes.end()}));
}

void EngramHash::row_ids(std::span<const TokenId> history, std::span<const TokenId> tokens,
                         RowId* out) const {
  const TokenWindow window(history, tokens);
  const std::int32_t ngram_size = columns_.ngram_size();
  const std::int64_t pad_code = code_of(pad_token_);
  std::array<std::int64_t, XorColumns::kMaxNgramSize> codes;
  for (std::ptrdiff_t position = 0; position < std::ssize(tokens); ++position) {
    // A dead token hides itself and everything before it, and so does the sequence's start.
    bool blocked = false;
    for (std::int32_t k = 0; k < ngram_size; ++k) {
      blocked = blocked || !window.has(position - k) || is_dead(window[position - k]);
      codes[static_cast<std::size_t>(k)] = blocked ? pad_code : code_of(window[position - k]);
    }
    columns_.row_ids(codes.data(), out);
    out += column_count();
  }
}

}  // namespace ple
