#include <gtest/gtest.h>

#include <vector>

#include "kernels/ple_tiles.hpp"

namespace ple::test {
namespace {

using kernels::kTileRowBytes;
using kernels::TokenRows;

// As do copies of eight rows, of which the last may be no tokens.
TEST(TokenRows, StandApartAndWithinTheirBytes) {
  constexpr std::int32_t kChunks = 3;
  for (std::int32_t capacity = 1; capacity <= 400; ++capacity) {
    std::vector<bool> is_taken(TokenRows::bytes(capacity, kChunks) / kTileRowBytes);
    for (std::int32_t token = 0; token < capacity; ++token) {
      const TokenRows rows(capacity, kChunks, token);
      for (std::int32_t chunk = 0; chunk < kChunks; ++chunk) {
        const auto at =
            static_cast<std::size_t>((rows.begin + chunk * rows.chunk_bytes) / kTileRowBytes);
        ASSERT_LE(at + (token % 8 == 0 ? 8 : 1), is_taken.size()) << token << " of " << capacity;
        ASSERT_FALSE(is_taken[at]) << token << " of " << capacity;
        is_taken[at] = true;
      }
    }
  }
}

}  // namespace
}  // namespace ple::test
