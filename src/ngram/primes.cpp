#include "ngram/primes.hpp"

#include <bit>
#include <initializer_list>
#include <limits>

namespace ple {
namespace {

std::uint64_t power_mod(std::uint64_t base, std::uint32_t exponent, std::uint32_t modulus) {
  std::uint64_t result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1) != 0) result = result * base % modulus;
    base = base * base % modulus;
  }
  return result;
}

// Miller-Rabin: whether odd number passes for this witness.
bool passes(std::uint32_t number, std::uint32_t witness) {
  const int twos = std::countr_zero(number - 1);
  std::uint64_t power = power_mod(witness, (number - 1) >> twos, number);
  if (power == 1 || power == number - 1) return true;
  for (int i = 1; i < twos; ++i) {
    power = power * power % number;
    if (power == number - 1) return true;
  }
  return false;
}

}  // namespace

bool is_prime(std::uint32_t number) {
  if (number < 2) return false;
  for (const std::uint32_t small : {2U, 3U, 5U, 7U, 11U, 13U, 17U, 19U, 23U, 29U, 31U, 37U, 61U}) {
    if (number % small == 0) return number == small;
  }
  // No composite below 4,759,123,141 passes for these three.
  return passes(number, 2) && passes(number, 7) && passes(number, 61);
}

std::uint32_t next_prime(std::uint32_t number) {
  while (number != std::numeric_limits<std::uint32_t>::max()) {
    if (is_prime(++number)) return number;
  }
  return 0;
}

}  // namespace ple
