#include "ngram/longcat_hash.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "ngram/row_hash_support.hpp"
#include "support/json_file.hpp"

namespace ple {
namespace {

using nlohmann::json;
using test::Rows;
using test::rows_between;
using test::rows_of;
using test::Tokens;
using Hash = std::shared_ptr<const LongcatHash>;
using Numbers = std::vector<std::int64_t>;

constexpr TokenId kEos = 2;
const LongcatHash::Config kLite{
    .vocab_size = 131072, .base = 131072, .size_ratio = 78, .eos_token = kEos};
const LongcatHash::Config kTwo{.vocab_size = 163840,
                               .base = 163840,
                               .size_ratio = 100.567,
                               .ngram_size = 5,
                               .eos_token = kEos};

LongcatHash::Config next_config() {
  LongcatHash::Config config{
      .vocab_size = 282624, .base = 131072, .size_ratio = 78, .zero_is_nothing = true};
  config.ignored.resize(53);
  std::iota(config.ignored.begin(), config.ignored.end(), 131072);
  return config;
}

Hash make(const LongcatHash::Config& config) {
  auto hash = LongcatHash::create(config);
  EXPECT_TRUE(hash.is_ok()) << hash.status().message();
  return std::move(hash).value();
}

// Ids within each table, as the references count them; no row is 0.
Rows table_ids(const LongcatHash& hash, const Rows& rows) {
  const Numbers offsets = hash.offsets();
  Rows ids = rows;
  for (auto& row : ids) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = row[i] == kNoRow ? 0 : row[i] - static_cast<RowId>(offsets[i]);
    }
  }
  return ids;
}

Rows ids_of(const LongcatHash& hash, const Tokens& tokens) {
  return table_ids(hash, rows_of(hash, tokens));
}

// The specification's loop, reducing term by term.
Rows slow_ids(const LongcatHash::Config& config, const Numbers& moduli, const Tokens& tokens) {
  const auto digit = [&config](TokenId token) -> std::int64_t {
    for (const TokenId ignored : config.ignored) {
      if (token == ignored) return 0;
    }
    return token;
  };
  const auto mod = [](std::int64_t x, std::int64_t m) { return ((x % m) + m) % m; };
  Rows ids;
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    auto& row = ids.emplace_back();
    for (std::size_t table = 0; table < moduli.size(); ++table) {
      const std::size_t order = 2 + table / static_cast<std::size_t>(config.splits);
      const std::int64_t m = moduli[table];
      std::int64_t x = mod(digit(tokens[p]), m);
      std::int64_t power = 1;
      const bool sees_nothing = config.zero_is_nothing && digit(tokens[p]) == 0;
      for (std::size_t d = 1; d < order && d <= p && !sees_nothing; ++d) {
        const std::int64_t earlier = digit(tokens[p - d]);
        if (earlier == config.eos_token || (config.zero_is_nothing && earlier == 0)) break;
        power = power * config.base % m;
        x = (x + mod(earlier, m) * power) % m;
      }
      row.push_back(static_cast<RowId>(x));
    }
  }
  return ids;
}

TEST(LongcatHash, DerivesTheReleasedSizes) {
  const Hash lite = make(kLite);
  EXPECT_EQ(lite->moduli(), (Numbers{10223617, 10223619, 10223621, 10223623, 10223625, 10223627,
                                     10223629, 10223631, 10223633, 10223635, 10223637, 10223639}));
  EXPECT_EQ(lite->row_count(), 122683536U);
  EXPECT_EQ(lite->lookback(), 3);
  EXPECT_EQ(lite->column_count(), 12);
  EXPECT_EQ(lite->offsets()[2], 10223617 + 10223619);
  // A ratio that is no integer makes even sizes.
  const Hash two = make(kTwo);
  EXPECT_EQ(two->moduli().front(), 16476898);
  EXPECT_EQ(two->moduli().back(), 16476928);
  EXPECT_EQ(two->column_count(), 16);
}

TEST(LongcatHash, GivesTheSpecificationsWorkedIds) {
  const Hash lite = make(kLite);
  const Rows first = ids_of(*lite, {1, 17, 23, 29});
  EXPECT_EQ(first[0], std::vector<RowId>(12, 1));
  EXPECT_EQ(first[1], std::vector<RowId>(12, 131089));
  EXPECT_EQ(first[2], (std::vector<RowId>{2228247, 2228247, 2228247, 2228247, 6407431, 6404071,
                                          6400711, 6397351, 6393991, 6390631, 6387271, 6383911}));
  EXPECT_EQ(first[3], (std::vector<RowId>{3014685, 3014685, 3014685, 3014685, 2495438, 2438304,
                                          2381170, 2324036, 1096839, 147276, 9421522, 8472305}));
  const Rows cut = ids_of(*lite, {41, 2, 47, 53});
  EXPECT_EQ(cut[0], std::vector<RowId>(12, 41));
  EXPECT_EQ(cut[1], std::vector<RowId>(12, 5373954));  // the EOS sees its predecessor
  EXPECT_EQ(cut[2], std::vector<RowId>(12, 47));
  EXPECT_EQ(cut[3], std::vector<RowId>(12, 6160437));
  EXPECT_EQ(ids_of(*lite, Tokens(4, 131071))[3],
            (std::vector<RowId>{4192623, 4189263, 4185903, 4182543, 2401372, 1508255, 615310,
                                9946168, 2221096, 8628880, 6955905, 7425792}));
}

TEST(LongcatHash, GivesTheIdsOfThirdParties) {
  const Hash ten = make({.vocab_size = 10,
                         .base = 10,
                         .size_ratio = 1,
                         .ngram_size = 3,
                         .splits = 1,
                         .eos_token = 9});
  EXPECT_EQ(ten->moduli(), (Numbers{11, 13}));
  const Rows rows = rows_of(*ten, {2, 3, 4});
  EXPECT_EQ(rows[2], (std::vector<RowId>{1, 11}));  // 34 mod 11, 11 + 234 mod 13
  EXPECT_EQ(rows[1][0], 1U);
  EXPECT_EQ(rows_of(*ten, {5, 9, 7})[2][0], 7U);
  EXPECT_EQ(rows_of(*ten, {5, 9, 7})[1][0], 4U);
  const Hash eight = make(
      {.vocab_size = 8, .base = 8, .size_ratio = 1, .ngram_size = 2, .splits = 1, .eos_token = 7});
  EXPECT_EQ(rows_of(*eight, {3, 5}), (Rows{{3}, {2}}));
}

TEST(LongcatHash, EqualsTheReleasedCodeOnEveryGoldenGeometry) {
  test::Random random;
  for (const json& geometry : test::json_file("golden/longcat/ids.json")) {
    const std::int64_t vocab = geometry["vocab_size"];
    const Hash hash = make({.vocab_size = vocab,
                            .base = geometry.value("text_vocab_size", vocab),
                            .size_ratio = geometry["ratio"],
                            .ngram_size = geometry["n"],
                            .splits = geometry["k"],
                            .eos_token = geometry["eos"],
                            .zero_is_nothing = geometry["variant"] == "next",
                            .ignored = geometry.value("oe_ignored_token_ids", Tokens())});
    EXPECT_EQ(hash->moduli(), geometry["moduli"]) << geometry["name"];
    for (const json& sequence : geometry["sequences"]) {
      EXPECT_EQ(ids_of(*hash, sequence["tokens"]), sequence["ids"].get<Rows>()) << geometry["name"];
      test::expect_chunks_equal(*hash, sequence["tokens"], random);
    }
  }
}

TEST(LongcatHash, EqualsTheSlowModelOnRandomGeometries) {
  test::Random random;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t base = random.between(2, 200'000);
    LongcatHash::Config config{
        .vocab_size = base + random.between(0, 1000),
        .base = base,
        .size_ratio = 1.0 + static_cast<double>(random.between(0, 1000)) / 37.0,
        .ngram_size = random.between(2, 6),
        .splits = random.between(1, 5),
        .eos_token = random.between(0, base - 1),
        .zero_is_nothing = random.chance(0.5)};
    for (TokenId token = static_cast<TokenId>(base);
         token < config.vocab_size && random.chance(0.9); ++token) {
      if (random.chance(0.5)) config.ignored.push_back(token);
    }
    const Hash hash = make(config);
    Tokens tokens(static_cast<std::size_t>(random.between(0, 60)));
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random.between(0, config.vocab_size - 1));
      if (random.chance(0.15)) token = static_cast<TokenId>(config.eos_token);
      if (random.chance(0.1)) token = 0;
      if (random.chance(0.1) && !config.ignored.empty()) token = config.ignored.front();
    }
    ASSERT_EQ(ids_of(*hash, tokens), slow_ids(config, hash->moduli(), tokens));
    test::expect_chunks_equal(*hash, tokens, random);
  }
}

// Specification E.5.
TEST(LongcatHash, TreatsNothingAndTokenZeroAlikeInLite) {
  const Hash lite = make(kLite);
  EXPECT_EQ(rows_of(*lite, {0, 0, 0, 5, 6})[4], rows_of(*lite, {5, 6})[1]);
}

// Specification E.3.
TEST(LongcatHash, StartsAfreshAfterEveryEosPatternInTheHistory) {
  for (const auto& config : {kLite, kTwo, next_config()}) {
    const Hash hash = make(config);
    const auto lookback = static_cast<std::size_t>(hash->lookback());
    for (unsigned pattern = 0; pattern < 1U << lookback; ++pattern) {
      Tokens tokens;
      std::size_t after_last_eos = 0;
      for (std::size_t i = 0; i < lookback; ++i) {
        const bool is_eos = (pattern >> i & 1) != 0;
        tokens.push_back(is_eos ? kEos : static_cast<TokenId>(100 + i));
        if (is_eos) after_last_eos = i + 1;
      }
      tokens.insert(tokens.end(), {7, 8, 9});
      const Tokens suffix = test::slice(tokens, after_last_eos, tokens.size());
      EXPECT_EQ(rows_between(*hash, tokens, lookback, tokens.size()),
                rows_between(*hash, suffix, lookback - after_last_eos, suffix.size()));
    }
  }
}

TEST(LongcatHash, ReadsNoRowInNextWhereTheHashIsZero) {
  const Hash next = make(next_config());
  const std::vector<RowId> none(12, kNoRow);
  const Rows rows = rows_of(*next, {5, 131072, 6, 0, 7});
  EXPECT_EQ(rows[1], none);                    // an ignored id
  EXPECT_EQ(rows[3], none);                    // and token 0
  EXPECT_EQ(rows[2], rows_of(*next, {6})[0]);  // which hide what lies before them
  EXPECT_EQ(rows[4], rows_of(*next, {7})[0]);
  // Lite reads row 0 of each table.
  EXPECT_EQ(ids_of(*make(kLite), {0})[0], std::vector<RowId>(12, 0));
  EXPECT_NE(rows_of(*make(kLite), {0})[0], none);
}

// Specification E.2 and E.6.
TEST(LongcatHash, DependsOnItsOrderAloneAndStaysInItsTable) {
  test::Random random;
  const Hash hash = make(kTwo);
  const Numbers moduli = hash->moduli();
  for (int round = 0; round < 100; ++round) {
    Tokens tokens(6);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.between(3, 163839));
    const auto before = ids_of(*hash, tokens)[5];
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_LT(before[i], moduli[i]);
    for (std::size_t back = 1; back <= 5; ++back) {
      Tokens changed = tokens;
      changed[5 - back] = changed[5 - back] == 3 ? 4 : changed[5 - back] - 1;
      const auto after = ids_of(*hash, changed)[5];
      for (std::size_t i = 0; i < after.size(); ++i) {
        EXPECT_EQ(after[i] == before[i], back > 1 + i / 4) << "table " << i << " back " << back;
      }
    }
  }
}

TEST(LongcatHash, RefusesWhatItCannotHash) {
  const auto refuses = [](auto&& change) {
    auto config = kLite;
    change(config);
    return !LongcatHash::create(config).is_ok();
  };
  EXPECT_TRUE(refuses([](auto& c) { c.vocab_size = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.base = 131073; }));
  EXPECT_TRUE(refuses([](auto& c) { c.ngram_size = 1; }));
  EXPECT_TRUE(refuses([](auto& c) { c.ngram_size = 17; }));
  EXPECT_TRUE(refuses([](auto& c) { c.splits = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_ratio = 0.0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_ratio = -1.0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_ratio = NAN; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_ratio = 1e-9; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_ratio = 5000; }));  // beyond 2^32 rows
}

}  // namespace
}  // namespace ple
