// A config.json: whatever is accepted hashes every token to a row of its table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto model = ple::parse_config(text, "fuzz");
  if (!model.is_ok()) return 0;
  constexpr std::array<ple::TokenId, 6> kTokens = {0,
                                                   1,
                                                   7,
                                                   ple::kDeadToken,
                                                   std::numeric_limits<ple::TokenId>::max(),
                                                   std::numeric_limits<ple::TokenId>::min()};
  for (const ple::LayerSpec& layer : model.value().layers) {
    const auto columns = static_cast<std::size_t>(layer.hash->column_count());
    std::vector<ple::RowId> rows(kTokens.size() * columns);
    layer.hash->row_ids({}, kTokens, rows.data());
    for (const ple::RowId row : rows) {
      if (row != ple::kNoRow && row >= layer.hash->row_count()) std::abort();
    }
  }
  return 0;
}
