#include "ngram/qwen4_exp_hash.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "ngram/primes.hpp"
#include "ngram/row_hash_support.hpp"
#include "support/json_file.hpp"

namespace ple {
namespace {

using test::Rows;
using test::rows_between;
using test::rows_of;
using test::Tokens;
using Hash = std::shared_ptr<const Qwen4ExpHash>;

constexpr TokenId kEos = 248044;
const Qwen4ExpHash::Config kReleased{.vocab_size = 248320, .eos_token = kEos};

Hash make(const Qwen4ExpHash::Config& config) {
  auto hash = Qwen4ExpHash::create(config);
  EXPECT_TRUE(hash.is_ok()) << hash.status().message();
  return std::move(hash).value();
}

// The specification's pseudocode, word for word, with `%`.
Rows slow_rows(const Qwen4ExpHash& hash, std::int64_t eos, const Tokens& tokens) {
  const auto multipliers = hash.columns().multipliers();
  const auto sizes = hash.columns().sizes();
  const auto offsets = hash.columns().offsets();
  const std::size_t n = multipliers.size();
  const std::size_t heads = sizes.size() / (n - 1);
  Rows rows;
  for (std::size_t p = 0; p < tokens.size(); ++p) {
    std::vector<std::int64_t> c = {tokens[p]};
    bool cut = false;
    for (std::size_t k = 1; k < n; ++k) {
      std::int64_t u = k <= p ? tokens[p - k] : eos;
      if (cut) u = eos;
      if (u == eos) cut = true;
      c.push_back(u);
    }
    auto product = [&](std::size_t k) {
      return static_cast<std::uint64_t>(c[k]) * static_cast<std::uint64_t>(multipliers[k]);
    };
    std::uint64_t x = product(0);
    auto& row = rows.emplace_back();
    for (std::size_t g = 2; g <= n; ++g) {
      x ^= product(g - 1);
      for (std::size_t h = 0; h < heads; ++h) {
        const std::size_t j = (g - 2) * heads + h;
        std::int64_t id = static_cast<std::int64_t>(x) % sizes[j];
        if (id < 0) id += sizes[j];
        row.push_back(static_cast<RowId>(id + offsets[j]));
      }
    }
  }
  return rows;
}

TEST(Qwen4ExpHash, DerivesTheReleasedConstants) {
  const Hash hash = make(kReleased);
  EXPECT_EQ(hash->columns().multipliers(),
            (std::vector<std::int64_t>{23703573157769, 20109073645365, 8052911324071}));
  EXPECT_EQ(hash->columns().sizes(),
            (std::vector<std::int64_t>{20000003, 20000023, 20000033, 20000047, 20000059, 20000063,
                                       20000069, 20000077, 20000081, 20000093, 20000107, 20000147,
                                       20000153, 20000159, 20000161, 20000171}));
  EXPECT_EQ(hash->columns().offsets(),
            (std::vector<std::int64_t>{0, 20000003, 40000026, 60000059, 80000106, 100000165,
                                       120000228, 140000297, 160000374, 180000455, 200000548,
                                       220000655, 240000802, 260000955, 280001114, 300001275}));
  EXPECT_EQ(hash->columns().size_sum(), 320001446U);
  EXPECT_EQ(hash->row_count(), 320001536U);
  EXPECT_EQ(hash->lookback(), 2);
  EXPECT_EQ(hash->column_count(), 16);
}

TEST(Qwen4ExpHash, ContinuesThePrimesInASecondLayer) {
  auto config = kReleased;
  config.layer_position = 1;
  const Hash hash = make(config);
  EXPECT_EQ(hash->columns().multipliers(),
            (std::vector<std::int64_t>{3352040966061, 19752442147475, 10742103100073}));
  const auto sizes = hash->columns().sizes();
  EXPECT_EQ(std::vector<std::int64_t>(sizes.begin(), sizes.begin() + 4),
            (std::vector<std::int64_t>{20000213, 20000221, 20000243, 20000269}));
  EXPECT_EQ(sizes.back(), 20000429);
}

TEST(Qwen4ExpHash, GivesTheSpecificationsWorkedIds) {
  const Hash hash = make(kReleased);
  const Rows rows = rows_of(
      *hash, {248044, 5, 1000, 99999, 42, 7, 248044, 1234, 8, 999999, 2048, 332, 248044, 77});
  EXPECT_EQ(rows[0], (std::vector<RowId>{9663979, 26558231, 56120240, 74755659, 80459717, 109265651,
                                         132697467, 151022725, 170054832, 192967038, 200687722,
                                         225763581, 259275737, 272983544, 297596484, 300986548}));
  EXPECT_EQ(rows[1],
            (std::vector<RowId>{15389869, 39778609, 55713969, 62213332, 88817728, 118483999,
                                133731511, 155458159, 179763390, 197956758, 205378969, 220499474,
                                242466248, 265658744, 293662119, 315720898}));
  EXPECT_EQ(rows[6],
            (std::vector<RowId>{10204458, 27984170, 41283776, 68842151, 85621153, 118821647,
                                129504214, 158727320, 173462142, 180069337, 216461945, 232191903,
                                256608687, 262083706, 290810789, 316209228}));
  EXPECT_EQ(rows[7], (std::vector<RowId>{3266289, 31842795, 49880168, 71331483, 96474550, 118988757,
                                         123509793, 150937574, 179212937, 187581286, 200233969,
                                         236168836, 243277540, 271617309, 294670876, 311989426}));
  EXPECT_EQ(rows[9], (std::vector<RowId>{1627133, 23682758, 48653102, 64027158, 89876577, 119334181,
                                         124308963, 145747249, 178754438, 196279456, 208166419,
                                         221889602, 240568389, 260191582, 293609395, 302271182}));
  EXPECT_EQ(rows[13],
            (std::vector<RowId>{16611476, 29512305, 49704971, 66165983, 89881645, 105251896,
                                139055756, 152191225, 178497739, 192880870, 205859405, 228292887,
                                258357841, 269648670, 287018169, 315908561}));
  EXPECT_EQ(
      rows_of(*hash, {1, 2, 3}),
      (Rows{
          {16121432, 28938500, 59087997, 73487090, 81148277, 104500129, 120276032, 149373875,
           176283436, 184305849, 216528839, 231080079, 257961536, 266068568, 289043455, 305959965},
          {15220011, 32170723, 40646129, 76511807, 98682440, 106072663, 127158041, 141938523,
           170367010, 180520041, 210849650, 234005644, 252857364, 272068622, 291885712, 311569748},
          {14605717, 24410875, 49313567, 72177428, 86060820, 104022010, 130963819, 146886202,
           161523077, 195939126, 219424565, 220811782, 248020141, 275228530, 284297999,
           309645223}}));
}

TEST(Qwen4ExpHash, PiecesOfALongTextGiveItsRows) {
  const Hash hash = make(kReleased);
  test::Random random;
  const auto pool = std::move(ThreadPool::create(3)).value();
  for (const std::size_t count : {1U, 1023U, 1024U, 1500U, 5000U}) {
    Tokens sequence(count + 2);
    for (TokenId& token : sequence) {
      token = random.between(0, 3) == 0 ? kEos : static_cast<TokenId>(random.between(0, 248319));
    }
    const std::span<const TokenId> tokens(sequence);
    std::vector<RowId> whole(count * 16);
    std::vector<RowId> pieces(count * 16);
    hash->row_ids(tokens.first(2), tokens.subspan(2), whole.data());
    hash->row_ids(tokens.first(2), tokens.subspan(2), pieces.data(), *pool);
    EXPECT_EQ(pieces, whole) << count;
  }
}

TEST(Qwen4ExpHash, HashesImagePlaceholdersAsOrdinaryIds) {
  EXPECT_EQ(rows_of(*make(kReleased), {248053, 248056, 248056, 248054})[2],
            (std::vector<RowId>{16982399, 34740182, 54733895, 75973670, 98195745, 119174304,
                                120865008, 143535541, 173993462, 185809083, 203917179, 238671211,
                                256634956, 274794499, 280891190, 311700975}));
}

TEST(Qwen4ExpHash, GivesTheWorkedIdsOfTheTinyConfig) {
  const Hash hash = make({.vocab_size = 64,
                          .ngram_size = 3,
                          .heads_per_ngram = 2,
                          .size_base = 17,
                          .row_divisor = 4,
                          .seed = 1234,
                          .eos_token = 1});
  EXPECT_EQ(hash->columns().sizes(), (std::vector<std::int64_t>{17, 19, 23, 29}));
  EXPECT_EQ(hash->columns().offsets(), (std::vector<std::int64_t>{0, 17, 36, 59}));
  EXPECT_EQ(hash->row_count(), 88U);
  EXPECT_EQ(hash->columns().multipliers(),
            (std::vector<std::int64_t>{112381549946653559, 107512210695146523, 55314113489879299}));
  EXPECT_EQ(
      rows_of(*hash, {5, 6, 1, 7, 8}),
      (Rows{
          {0, 26, 43, 74}, {13, 30, 45, 78}, {13, 23, 54, 60}, {6, 26, 57, 70}, {9, 28, 56, 85}}));
}

TEST(Qwen4ExpHash, EqualsThePublicReferenceOnEveryGoldenGeometry) {
  for (const auto& geometry : test::json_file("golden/qwen4_exp/ids.json")) {
    const Hash hash = make({.vocab_size = geometry["vocab_size"],
                            .ngram_size = geometry["ngram_size"],
                            .heads_per_ngram = geometry["heads_per_ngram"],
                            .size_base = geometry["ngram_vocab_size_base"],
                            .row_divisor = 1,
                            .seed = geometry["seed"],
                            .eos_token = geometry["eos_token_id"],
                            .layer_position = geometry["ple_layer_index"]});
    EXPECT_EQ(hash->columns().multipliers(), geometry["layer_multipliers"]);
    EXPECT_EQ(hash->columns().sizes(), geometry["head_vocab_sizes"]);
    EXPECT_EQ(hash->columns().offsets(), geometry["head_offsets"]);
    EXPECT_EQ(hash->row_count(), geometry["total"].get<std::uint64_t>());
    for (const auto& sequence : geometry["sequences"]) {
      EXPECT_EQ(rows_of(*hash, sequence["tokens"]), sequence["ids"].get<Rows>());
    }
  }
}

// Specification E.15: a product with bit 63 set.
TEST(Qwen4ExpHash, TakesTheFloorModuloOfTheSignedProduct) {
  const Rows rows = rows_of(*make(kReleased), {400000});
  EXPECT_EQ(rows[0][0], 8744929U);
  EXPECT_EQ(rows[0][1], 36897395U);
}

TEST(Qwen4ExpHash, EqualsTheSlowModelOnRandomGeometriesAndIdsOutsideTheVocabulary) {
  test::Random random;
  for (int round = 0; round < 300; ++round) {
    const std::int64_t vocab = random.between(1, 300'000);
    const std::int64_t eos = random.between(0, vocab + 100'000);
    const Hash hash = make({.vocab_size = vocab,
                            .ngram_size = random.between(2, 6),
                            .heads_per_ngram = random.between(1, 9),
                            .size_base = random.between(0, 3'000'000),
                            .row_divisor = random.between(1, 300),
                            .seed = static_cast<std::int64_t>(random.bits()),
                            .eos_token = eos,
                            .layer_position = random.between(0, 3)});
    Tokens tokens(static_cast<std::size_t>(random.between(0, 60)));
    for (TokenId& token : tokens) {
      token = static_cast<TokenId>(random.between(0, vocab - 1));
      if (random.chance(0.2)) token = static_cast<TokenId>(eos);
      if (random.chance(0.1)) token = static_cast<TokenId>(random.bits());
    }
    ASSERT_EQ(rows_of(*hash, tokens), slow_rows(*hash, eos, tokens));
    test::expect_chunks_equal(*hash, tokens, random);
  }
}

// Specification E.2.
TEST(Qwen4ExpHash, DependsOnTheLastNTokensOnly) {
  test::Random random;
  const Hash hash = make(kReleased);
  for (int round = 0; round < 100; ++round) {
    Tokens tokens(4);
    for (TokenId& token : tokens) token = static_cast<TokenId>(random.between(0, 248043));
    const Rows before = rows_of(*hash, tokens);
    Tokens changed = tokens;
    changed[0] += 1;
    EXPECT_EQ(rows_of(*hash, changed)[3], before[3]);
    changed = tokens;
    changed[1] += 1;
    const auto after = rows_of(*hash, changed)[3];
    EXPECT_TRUE(std::equal(after.begin(), after.begin() + 8, before[3].begin()));
    EXPECT_NE(after, before[3]);
  }
}

// Specification E.3.
TEST(Qwen4ExpHash, StartsAfreshAfterEveryEosPatternInTheHistory) {
  for (const std::int64_t n : {2, 3, 5}) {
    auto config = kReleased;
    config.ngram_size = n;
    const Hash hash = make(config);
    const auto lookback = static_cast<std::size_t>(n - 1);
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
                rows_between(*hash, suffix, lookback - after_last_eos, suffix.size()))
          << "n " << n << " pattern " << pattern;
    }
  }
}

TEST(Qwen4ExpHash, LetsAnEosSeeItsPredecessors) {
  const Hash hash = make(kReleased);
  const Rows one = rows_of(*hash, {5, kEos, kEos, 6});
  EXPECT_NE(one[1], rows_of(*hash, {6, kEos})[1]);
  EXPECT_EQ(one[2], rows_of(*hash, {kEos})[0]);
  EXPECT_EQ(one[3], rows_of(*hash, {6})[0]);
}

// Specification E.6.
TEST(Qwen4ExpHash, KeepsEveryIdInItsColumnAndThePaddedTailUnaddressed) {
  test::Random random;
  const Hash hash = make({.vocab_size = 64,
                          .ngram_size = 3,
                          .heads_per_ngram = 2,
                          .size_base = 17,
                          .row_divisor = 64,
                          .eos_token = 1});
  const auto sizes = hash->columns().sizes();
  const auto offsets = hash->columns().offsets();
  EXPECT_EQ(hash->row_count(), 128U);
  EXPECT_EQ(offsets.back() + sizes.back(), std::accumulate(sizes.begin(), sizes.end(), 0));
  std::vector<bool> seen(128);
  Tokens tokens(20'000);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.between(0, 63));
  for (const auto& row : rows_of(*hash, tokens)) {
    for (std::size_t j = 0; j < row.size(); ++j) {
      EXPECT_GE(row[j], offsets[j]);
      EXPECT_LT(row[j], offsets[j] + sizes[j]);
      seen[row[j]] = true;
    }
  }
  for (std::size_t row = 0; row < 88; ++row) EXPECT_TRUE(seen[row]) << row;
}

// Specification E.11.
TEST(Qwen4ExpHash, WritesNothingForNoTokens) {
  RowId untouched = 12345;
  make(kReleased)->row_ids(Tokens{1, 2}, {}, &untouched);
  EXPECT_EQ(untouched, 12345U);
}

TEST(Qwen4ExpHash, RefusesIdsOutsideTheVocabularyByIndex) {
  const Hash hash = make(kReleased);
  EXPECT_TRUE(hash->check(Tokens{0, 248319}).is_ok());
  const Status high = hash->check(Tokens{1, 2, 248320});
  EXPECT_EQ(high.code(), StatusCode::invalid_argument);
  EXPECT_EQ(high.message(), "token 248320 at index 2 is outside the vocabulary [0, 248320)");
  EXPECT_FALSE(hash->check(Tokens{kDeadToken}).is_ok());
}

TEST(Qwen4ExpHash, RefusesWhatItCannotHash) {
  const auto refuses = [](auto&& change) {
    auto config = kReleased;
    change(config);
    return !Qwen4ExpHash::create(config).is_ok();
  };
  EXPECT_TRUE(refuses([](auto& c) { c.vocab_size = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.ngram_size = 1; }));
  EXPECT_TRUE(refuses([](auto& c) { c.ngram_size = 17; }));
  EXPECT_TRUE(refuses([](auto& c) { c.heads_per_ngram = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.row_divisor = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.eos_token = -1; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_base = 300'000'000; }));  // 16 heads: beyond 2^32 rows
  EXPECT_TRUE(refuses([](auto& c) { c.size_base = 4294967290; }));   // primes run out
  EXPECT_TRUE(refuses([](auto& c) {
    c.row_divisor = 2'000'000'000;
    c.size_base = 260'000'000;
  }));
}

TEST(Qwen4ExpHash, TellsDifferentHashesApartByIdentity) {
  auto other = kReleased;
  EXPECT_EQ(make(kReleased)->identity(), make(other)->identity());
  other.seed = 0;
  EXPECT_NE(make(kReleased)->identity(), make(other)->identity());
  other = kReleased;
  other.eos_token = 248046;
  EXPECT_NE(make(kReleased)->identity(), make(other)->identity());
}

}  // namespace
}  // namespace ple
