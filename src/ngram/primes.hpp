#pragma once

#include <cstdint>

namespace ple {

// Deterministic for every 32-bit number.
bool is_prime(std::uint32_t number);

// The least prime greater than number, or 0 where none fits 32 bits.
std::uint32_t next_prime(std::uint32_t number);

}  // namespace ple
