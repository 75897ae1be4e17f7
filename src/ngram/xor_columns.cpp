#include "ngram/xor_columns.hpp"

#include "base/error.hpp"

namespace ple {

Result<XorColumns> XorColumns::create(std::span<const std::int64_t> multipliers,
                                      std::span<const std::uint32_t> sizes) {
  if (multipliers.size() < 2 || multipliers.size() > kMaxNgramSize) {
    return error(StatusCode::unsupported, "n-gram size {} is outside [2, {}]", multipliers.size(),
                 kMaxNgramSize);
  }
  XorColumns columns;
  const std::size_t orders = multipliers.size() - 1;
  if (sizes.empty() || sizes.size() % orders != 0) {
    return error(StatusCode::invalid_argument, "{} head sizes cannot be shared by {} orders",
                 sizes.size(), orders);
  }
  columns.heads_ = sizes.size() / orders;
  columns.multipliers_.assign(multipliers.begin(), multipliers.end());
  for (const std::uint32_t size : sizes) {
    if (size < 2) return error(StatusCode::invalid_argument, "head size {} is below 2", size);
    columns.columns_.push_back({FloorModulus(size), static_cast<RowId>(columns.size_sum_)});
    columns.size_sum_ += size;
    if (columns.size_sum_ >= kNoRow) {
      return error(StatusCode::unsupported, "the heads need {} rows or more, beyond 2^32 - 1",
                   columns.size_sum_);
    }
  }
  return columns;
}

std::vector<std::int64_t> XorColumns::multipliers() const {
  return {multipliers_.begin(), multipliers_.end()};
}

std::vector<std::int64_t> XorColumns::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const Column& column : columns_) sizes.push_back(column.modulus.divisor());
  return sizes;
}

std::vector<std::int64_t> XorColumns::offsets() const {
  std::vector<std::int64_t> offsets;
  for (const Column& column : columns_) offsets.push_back(column.offset);
  return offsets;
}

void XorColumns::add_to(Digest& digest) const {
  digest.add_all<std::int64_t>(multipliers()).add_all<std::int64_t>(sizes());
}

}  // namespace ple
