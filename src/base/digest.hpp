#pragma once

// The state's definition, so that a Digest needs no allocation.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace ple {

// A running XXH3 digest of 64 bits over numbers and bytes. Numbers enter as 64-bit little-endian,
// byte ranges with their length before them, so that no two sequences of calls collide by
// concatenation.
class Digest {
 public:
  Digest() { XXH3_64bits_reset(&state_); }

  template <std::integral T>
  Digest& add(T number) {
    const auto wide = static_cast<std::uint64_t>(number);
    XXH3_64bits_update(&state_, &wide, sizeof wide);
    return *this;
  }
  Digest& add(std::span<const std::byte> bytes) {
    add(bytes.size());
    XXH3_64bits_update(&state_, bytes.data(), bytes.size());
    return *this;
  }
  Digest& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }

  template <std::integral T>
  Digest& add_all(std::span<const T> numbers) {
    add(numbers.size());
    for (const T number : numbers) add(number);
    return *this;
  }

  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

}  // namespace ple
