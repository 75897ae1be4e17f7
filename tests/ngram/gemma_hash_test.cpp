#include "ngram/gemma_hash.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "ngram/row_hash_support.hpp"
#include "support/json_file.hpp"

namespace ple {
namespace {

using test::Tokens;

std::vector<RowId> rows(const RowHash& hash, const Tokens& tokens) {
  std::vector<RowId> out(tokens.size());
  hash.row_ids({}, tokens, out.data());
  return out;
}

TEST(GemmaHash, EqualsTheReleasedCode) {
  for (const auto& entry : test::json_file("golden/gemma/ids.json")) {
    GemmaHash::Config config{.vocab_size = entry["vocab_size"],
                             .row_count = entry["vocab_size_per_layer_input"]};
    for (const char* key : {"image_token_id", "audio_token_id", "video_token_id"}) {
      if (entry.contains(key)) config.placeholders.push_back(entry[key]);
    }
    const auto hash = GemmaHash::create(config).value();
    EXPECT_TRUE(hash->check(entry["tokens"].get<Tokens>()).is_ok());
    EXPECT_EQ(rows(*hash, entry["tokens"]), entry["rows"].get<std::vector<RowId>>())
        << entry["name"];
  }
}

TEST(GemmaHash, NeedsNoHistoryAndStaysInItsTable) {
  const auto hash =
      GemmaHash::create({.vocab_size = 100, .row_count = 80, .stand_in = 3, .placeholders = {66}})
          .value();
  EXPECT_EQ(hash->lookback(), 0);
  EXPECT_EQ(hash->column_count(), 1);
  EXPECT_EQ(hash->row_count(), 80U);
  EXPECT_EQ(rows(*hash, {79, 80, 99, 66, 0, -1, std::numeric_limits<TokenId>::min()}),
            (std::vector<RowId>{79, 3, 3, 3, 0, 3, 3}));
  EXPECT_FALSE(hash->check(Tokens{100}).is_ok());
}

TEST(GemmaHash, RefusesAStandInBeyondTheTable) {
  EXPECT_FALSE(GemmaHash::create({.vocab_size = 100, .row_count = 80, .stand_in = 80}).is_ok());
  EXPECT_FALSE(GemmaHash::create({.vocab_size = 0, .row_count = 80}).is_ok());
  EXPECT_FALSE(GemmaHash::create({.vocab_size = 100, .row_count = 0}).is_ok());
}

}  // namespace
}  // namespace ple
