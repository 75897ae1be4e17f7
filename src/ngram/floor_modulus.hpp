#pragma once

#include <bit>
#include <cstdint>

#include "base/assert.hpp"

namespace ple {

// The floor modulo of signed 64-bit numbers by one divisor, exact, without a division: the quotient
// of a 63-bit number by a divisor of l bits is the upper part of its product with
// floor(2^(63 + l) / divisor) + 1 (Granlund and Montgomery). Negative numbers use
// floor(x / d) = ~floor(~x / d), so x mod d = d - 1 - (~x mod d).
class FloorModulus {
 public:
  // divisor >= 2.
  explicit FloorModulus(std::uint32_t divisor)
      : divisor_(divisor), shift_(std::bit_width(divisor - 1) - 1) {
    PLE_ASSERT(divisor >= 2);
    const auto power = static_cast<unsigned __int128>(1) << (64 + shift_);
    reciprocal_ = static_cast<std::uint64_t>(power / divisor) + 1;
  }

  std::uint32_t operator()(std::int64_t number) const {
    const std::int64_t sign = number >> 63;  // 0 or all ones
    const auto magnitude = static_cast<std::uint64_t>(number ^ sign);
    const auto product = static_cast<unsigned __int128>(magnitude) * reciprocal_;
    const std::uint64_t quotient = static_cast<std::uint64_t>(product >> 64) >> shift_;
    const auto remainder = static_cast<std::uint32_t>(magnitude - quotient * divisor_);
    const auto mask = static_cast<std::uint32_t>(sign);
    return (remainder ^ mask) + (divisor_ & mask);
  }

  std::uint32_t divisor() const { return divisor_; }

 private:
  std::uint32_t divisor_;
  std::int32_t shift_;
  std::uint64_t reciprocal_;
};

}  // namespace ple
