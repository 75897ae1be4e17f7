#pragma once

#include <algorithm>
#include <span>

namespace ple::test {

// Whether both hold the same bits, NaNs too. Either may be empty, which memcmp does not take.
template <class T>
bool same_bits(std::span<const T> a, std::span<const T> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

}  // namespace ple::test
