#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pleiades::cli {

// The first `count` primes from `base` on, by trial division: for config values that a checkpoint
// states beside what the library derives.
inline std::vector<std::uint64_t> primes_from(std::uint64_t base, std::size_t count) {
  const auto is_prime = [](std::uint64_t number) {
    for (std::uint64_t divisor = 2; divisor * divisor <= number; ++divisor) {
      if (number % divisor == 0) return false;
    }
    return number >= 2;
  };
  std::vector<std::uint64_t> primes;
  for (std::uint64_t number = base; primes.size() < count; ++number) {
    if (is_prime(number)) primes.push_back(number);
  }
  return primes;
}

}  // namespace pleiades::cli
