#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/digest.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "ngram/floor_modulus.hpp"

namespace ple {

// The hash that qwen4_exp and Engram share: codes are multiplied by one odd number per look-back
// and XORed; each order's value is then reduced by one prime per head. Columns are order-major.
class XorColumns {
 public:
  // Longest n-gram that row_ids keeps on its stack; released models have 3 and 4.
  static constexpr std::int32_t kMaxNgramSize = 16;
  static constexpr std::int32_t kMaxHeads = 256;

  // multipliers: one per look-back, 2 to kMaxNgramSize. sizes: the primes, [order-2][head]; an
  // equal number of heads for each order, each size at least 2. Refused where the rows do not fit
  // RowId.
  static Result<XorColumns> create(std::span<const std::int64_t> multipliers,
                                   std::span<const std::uint32_t> sizes);

  // codes [ngram_size]: the token's, then of one before it, and so on, after the family's boundary
  // rule. out [column_count]. Products wrap as two's-complement int64.
  void row_ids(const std::int64_t* codes, RowId* out) const {
    std::uint64_t mixed = static_cast<std::uint64_t>(codes[0]) * multipliers_[0];
    const Column* column = columns_.data();
    for (std::size_t k = 1; k < multipliers_.size(); ++k) {
      mixed ^= static_cast<std::uint64_t>(codes[k]) * multipliers_[k];
      const auto value = static_cast<std::int64_t>(mixed);
      for (const Column* end = column + heads_; column != end; ++column) {
        *out++ = column->modulus(value) + column->offset;
      }
    }
  }

  std::int32_t ngram_size() const { return static_cast<std::int32_t>(multipliers_.size()); }
  std::int32_t column_count() const { return static_cast<std::int32_t>(columns_.size()); }
  std::uint64_t size_sum() const { return size_sum_; }
  std::vector<std::int64_t> multipliers() const;
  std::vector<std::int64_t> sizes() const;    // by column
  std::vector<std::int64_t> offsets() const;  // by column: exclusive prefix sums of sizes

  void add_to(Digest& digest) const;

 private:
  struct Column {
    FloorModulus modulus;
    RowId offset;
  };

  XorColumns() = default;

  std::vector<std::uint64_t> multipliers_;
  std::vector<Column> columns_;
  std::size_t heads_ = 0;
  std::uint64_t size_sum_ = 0;
};

}  // namespace ple
