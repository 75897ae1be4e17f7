#include "ngram/engram_hash.hpp"

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
using test::rows_of;
using test::Tokens;
using Hash = std::shared_ptr<const EngramHash>;
using Numbers = std::vector<std::int64_t>;

// DeepSeek-V4.1-Flash over codes, as if every token were its own code.
const EngramHash::Config kReleased{.vocab_size = 99092,
                                   .code_count = 99092,
                                   .size_bases = {16'000'000, 16'000'000, 16'000'000},
                                   .layers = {1, 14}};

Tokens identity_map(std::int64_t count) {
  Tokens map(static_cast<std::size_t>(count));
  std::iota(map.begin(), map.end(), 0);
  return map;
}

std::vector<Hash> make(const EngramHash::Config& config, const Tokens& map) {
  const auto layers = EngramHash::create_layers(config);
  EXPECT_TRUE(layers.is_ok()) << layers.status().message();
  std::vector<Hash> mapped;
  for (const Hash& layer : layers.value()) {
    const auto hash = layer->with_token_map(map);
    EXPECT_TRUE(hash.is_ok()) << hash.status().message();
    mapped.push_back(hash.value());
  }
  return mapped;
}

std::vector<Hash> make_released() { return make(kReleased, identity_map(99092)); }

TEST(EngramHash, DerivesTheReleasedConstants) {
  const auto layers = make_released();
  EXPECT_EQ(layers[0]->columns().multipliers(),
            (Numbers{76632096046245, 4839876093313, 35959672319349, 73987337458391}));
  EXPECT_EQ(layers[1]->columns().multipliers(),
            (Numbers{67716810739261, 51510806800915, 30921347202721, 82619226485591}));
  EXPECT_EQ(
      layers[0]->columns().sizes(),
      (Numbers{16000057, 16000079, 16000081, 16000097, 16000121, 16000129, 16000133, 16000183,
               16000189, 16000207, 16000211, 16000253, 16000277, 16000289, 16000307, 16000321,
               16000339, 16000381, 16000393, 16000399, 16000403, 16000409, 16000447, 16000463}));
  EXPECT_EQ(
      layers[1]->columns().sizes(),
      (Numbers{16000477, 16000487, 16000499, 16000507, 16000511, 16000573, 16000609, 16000627,
               16000667, 16000669, 16000693, 16000697, 16000711, 16000729, 16000759, 16000769,
               16000781, 16000799, 16000813, 16000819, 16000841, 16000877, 16000879, 16000889}));
  EXPECT_EQ(layers[0]->row_count(), 384006168U);
  EXPECT_EQ(layers[1]->row_count(), 384016682U);
  EXPECT_EQ(layers[0]->lookback(), 3);
  EXPECT_EQ(layers[0]->column_count(), 24);
}

TEST(EngramHash, GivesTheSpecificationsWorkedIds) {
  const auto layers = make_released();
  const Tokens codes = {0, 100, 200, kDeadToken, 300, 99091};
  const Rows first = rows_of(*layers[0], codes);
  EXPECT_EQ(first[0],
            (std::vector<RowId>{5702652,   24393184,  39183301,  61503783,  78984481,  90144770,
                                103724983, 121476532, 131476717, 152385926, 164143652, 191599181,
                                198145581, 217419202, 238329687, 247482304, 257520185, 283540304,
                                288689443, 315264704, 322314652, 348890037, 367865216, 380066193}));
  EXPECT_EQ(first[2],
            (std::vector<RowId>{11457621,  17609295,  38535221,  61959596,  73154933,  92902545,
                                102779299, 114403443, 129259110, 157852454, 167767536, 191993408,
                                203648213, 217502262, 230316329, 249199381, 259243688, 278119405,
                                299552268, 318275472, 330760044, 349490556, 356215957, 374258567}));
  EXPECT_EQ(first[3],
            (std::vector<RowId>{4299726,   29253038,  43157972,  58397134,  65256332,  88876378,
                                100686433, 112312540, 129401291, 144510675, 170979806, 184903880,
                                199719089, 215127204, 230239700, 250883315, 264341430, 275127613,
                                298781502, 318608685, 331826823, 351654054, 365224186, 370096053}));
  EXPECT_EQ(first[4],
            (std::vector<RowId>{12107079,  30784303,  38304753,  50493966,  76864042,  91010433,
                                106088005, 118798592, 132941077, 152495463, 165737814, 184954923,
                                200650285, 208536870, 228415528, 251028316, 262703894, 272851955,
                                291809778, 309298558, 326294795, 343794325, 353438402, 373576841}));
  const Rows second = rows_of(*layers[1], codes);
  EXPECT_EQ(second[2],
            (std::vector<RowId>{1475491,   28498884,  32136051,  50567368,  67785096,  94806719,
                                105984530, 119610424, 132199274, 156832889, 164447795, 181721867,
                                194188548, 223953795, 225614713, 252851384, 267608630, 279873099,
                                291207133, 316641646, 329921016, 338639145, 363127709, 373568976}));
  EXPECT_EQ(second[5],
            (std::vector<RowId>{2594078,   24777177,  35918714,  52875353,  70612562,  92825748,
                                103261388, 117965591, 140765978, 152808017, 169668440, 183415621,
                                198136718, 211594796, 239781618, 254331999, 262470063, 287799138,
                                297911733, 314535430, 332970836, 337880803, 360591854, 381288225}));
}

// [layer][order][head] of the vectors, flattened by layer.
std::vector<Numbers> by_layer(const json& nested) {
  std::vector<Numbers> layers;
  for (const json& layer : nested) {
    auto& flat = layers.emplace_back();
    for (const json& order : layer) {
      for (const json& size : order) flat.push_back(size);
    }
  }
  return layers;
}

// Every layer's part of the vectors' ids [position][layer][column].
Rows layer_ids(const json& ids, std::size_t layer) {
  Rows rows;
  for (const json& position : ids) rows.push_back(position[layer]);
  return rows;
}

void expect_constants(const std::vector<Hash>& hashes, const json& geometry,
                      const json& row_counts) {
  const auto primes = by_layer(geometry["primes"]);
  ASSERT_EQ(hashes.size(), primes.size());
  for (std::size_t layer = 0; layer < hashes.size(); ++layer) {
    EXPECT_EQ(hashes[layer]->columns().multipliers(), geometry["multipliers"][layer]);
    EXPECT_EQ(hashes[layer]->columns().sizes(), primes[layer]);
    EXPECT_EQ(hashes[layer]->columns().offsets(), geometry["offsets"][layer]);
    EXPECT_EQ(hashes[layer]->row_count(), row_counts[layer].get<std::uint64_t>());
  }
}

TEST(EngramHash, EqualsTheReleasedCodeOnEveryGoldenGeometry) {
  test::Random random;
  for (const json& geometry : test::json_file("golden/engram_v41/ids.json")) {
    const std::int64_t vocab = geometry["vocab_size"];
    const std::size_t orders = geometry["engram_max_ngram_size"].get<std::size_t>() - 1;
    const Tokens map = geometry["token_map"] == "identity" ? identity_map(vocab)
                                                           : geometry["token_map"].get<Tokens>();
    const auto hashes = make({.vocab_size = vocab,
                              .code_count = geometry["engram_compressed_vocab_size"],
                              .size_bases = Numbers(orders, geometry["engram_vocab_size"]),
                              .heads_per_ngram = geometry["engram_n_heads"],
                              .pad_token = geometry["engram_pad_token_id"],
                              .layers = geometry["engram_layer_ids"]},
                             map);
    expect_constants(hashes, geometry, geometry["engram_num_embeddings"]);
    for (const json& sequence : geometry["sequences"]) {
      Tokens tokens = sequence["tokens"];
      for (const std::size_t dead : sequence.value("dead", std::vector<std::size_t>())) {
        tokens[dead] = kDeadToken;
      }
      for (std::size_t layer = 0; layer < hashes.size(); ++layer) {
        EXPECT_EQ(rows_of(*hashes[layer], tokens), layer_ids(sequence["ids"], layer));
        test::expect_chunks_equal(*hashes[layer], tokens, random);
      }
    }
  }
}

TEST(EngramHash, EqualsTheDemoOnEveryGoldenGeometry) {
  test::Random random;
  for (const json& geometry : test::json_file("golden/engram_demo/ids.json")) {
    const std::int64_t vocab = geometry["vocab_size"];
    const std::int64_t code_count = geometry["compressed_vocab_size"];
    Tokens map = identity_map(vocab);
    for (TokenId& code : map) code = static_cast<TokenId>(code % code_count);
    if (geometry["token_map"].is_array()) map = geometry["token_map"].get<Tokens>();
    const auto hashes = make({.vocab_size = vocab,
                              .code_count = code_count,
                              .size_bases = geometry["engram_vocab_size"],
                              .heads_per_ngram = geometry["n_head_per_ngram"],
                              .pad_token = geometry["pad_id"],
                              .seed = geometry["seed"],
                              .layers = geometry["layer_ids"],
                              .has_dead_tokens = false},
                             map);
    expect_constants(hashes, geometry, geometry["rows"]);
    for (const json& sequence : geometry["sequences"]) {  // the last ones hold ids of -1
      for (std::size_t layer = 0; layer < hashes.size(); ++layer) {
        EXPECT_EQ(rows_of(*hashes[layer], sequence["tokens"]), layer_ids(sequence["ids"], layer));
        test::expect_chunks_equal(*hashes[layer], sequence["tokens"], random);
      }
    }
  }
}

// Specification E.2 and E.4.
TEST(EngramHash, ChangesExactlyThePositionsAfterADeadToken) {
  const auto layers = make_released();
  Tokens tokens(20);
  std::iota(tokens.begin(), tokens.end(), 500);
  const Rows alive = rows_of(*layers[0], tokens);
  for (std::size_t dead = 0; dead < tokens.size(); ++dead) {
    Tokens with_dead = tokens;
    with_dead[dead] = kDeadToken;
    const Rows rows = rows_of(*layers[0], with_dead);
    for (std::size_t p = 0; p < tokens.size(); ++p) {
      EXPECT_EQ(rows[p] != alive[p], p >= dead && p <= dead + 3) << "dead " << dead << " at " << p;
    }
  }
}

TEST(EngramHash, HashesDeadTokensAndTheStartAsPads) {
  const auto layers = make_released();
  const auto pads = rows_of(*layers[0], {2})[0];
  for (const auto& row : rows_of(*layers[0], Tokens(6, kDeadToken))) EXPECT_EQ(row, pads);
  // What follows a dead token is hashed as at a sequence's start.
  const Rows after = rows_of(*layers[0], {7, 8, kDeadToken, 9, 10});
  const Rows fresh = rows_of(*layers[0], {9, 10});
  EXPECT_EQ(after[3], fresh[0]);
  EXPECT_EQ(after[4], fresh[1]);
}

TEST(EngramHash, TakesTheIdOfImagesAsDead) {
  auto config = kReleased;
  config.dead_token = 99000;
  const auto hash = make(config, identity_map(99092))[0];
  EXPECT_TRUE(hash->is_dead(99000));
  EXPECT_TRUE(hash->is_dead(kDeadToken));
  EXPECT_FALSE(hash->is_dead(98999));
  EXPECT_EQ(rows_of(*hash, {7, 99000, 9, 10, 11}), rows_of(*hash, {7, kDeadToken, 9, 10, 11}));
}

// Specification E.6.
TEST(EngramHash, KeepsEveryIdInItsColumn) {
  test::Random random;
  const auto hash = make_released()[1];
  const auto sizes = hash->columns().sizes();
  const auto offsets = hash->columns().offsets();
  Tokens tokens(2000);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random.bits());
  for (const auto& row : rows_of(*hash, tokens)) {
    for (std::size_t j = 0; j < row.size(); ++j) {
      EXPECT_GE(row[j], offsets[j]);
      EXPECT_LT(row[j], offsets[j] + sizes[j]);
    }
  }
}

TEST(EngramHash, RefusesEverythingWithoutItsTokenMap) {
  const auto hash = EngramHash::create_layers(kReleased).value()[0];
  EXPECT_TRUE(hash->needs_token_map());
  EXPECT_EQ(hash->check(Tokens{1}).code(), StatusCode::wrong_state);
  const auto mapped = make_released()[0];
  EXPECT_FALSE(mapped->needs_token_map());
  EXPECT_TRUE(mapped->check(Tokens{1, kDeadToken}).is_ok());
  EXPECT_FALSE(mapped->check(Tokens{-2}).is_ok());
  EXPECT_FALSE(mapped->check(Tokens{99092}).is_ok());
}

TEST(EngramHash, RefusesATokenMapOfAnotherSize) {
  const auto hash = EngramHash::create_layers(
                        {.vocab_size = 4, .code_count = 3, .size_bases = {10}, .layers = {0}})
                        .value()[0];
  const auto message = [&hash](const Tokens& map) {
    return hash->with_token_map(map).status().message();
  };
  EXPECT_EQ(message({0, 1, 1, 2}), "");
  EXPECT_EQ(message({0, 1, 2}), "the token map has 3 entries, the vocabulary 4");
  EXPECT_EQ(message({0, 1, 1, 3}), "the token map gives token 3 code 3, outside [0, 3)");
  EXPECT_EQ(message({0, -1, 1, 2}), "the token map gives token 1 code -1, outside [0, 3)");
  EXPECT_EQ(message({0, 1, 1, 1}), "the token map uses 2 codes, the model has 3");
  EXPECT_NE(hash->with_token_map(Tokens{0, 1, 1, 2}).value()->identity(),
            hash->with_token_map(Tokens{0, 1, 2, 2}).value()->identity());
}

TEST(EngramHash, RefusesWhatItCannotHash) {
  const auto refuses = [](auto&& change) {
    auto config = kReleased;
    change(config);
    return !EngramHash::create_layers(config).is_ok();
  };
  EXPECT_TRUE(refuses([](auto& c) { c.vocab_size = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.code_count = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.code_count = 99093; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_bases = {}; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_bases = {-1, 5}; }));
  EXPECT_TRUE(refuses([](auto& c) { c.heads_per_ngram = 0; }));
  EXPECT_TRUE(refuses([](auto& c) { c.pad_token = 99092; }));
  EXPECT_TRUE(refuses([](auto& c) { c.seed = -1; }));
  EXPECT_TRUE(refuses([](auto& c) { c.layers = {}; }));
  EXPECT_TRUE(refuses([](auto& c) { c.layers = {-1}; }));
  EXPECT_TRUE(refuses([](auto& c) { c.size_bases = {4294967290, 5, 5}; }));  // primes run out
}

}  // namespace
}  // namespace ple
