// Token ids to row ids: nanoseconds a token, and the time to derive the constants, for the released
// geometry of every family. Medians on one thread.
//   row_hash_bench [--smoke]

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include "ngram/engram_hash.hpp"
#include "ngram/gemma_hash.hpp"
#include "ngram/longcat_hash.hpp"
#include "ngram/qwen4_exp_hash.hpp"

namespace {

using ple::RowHash;
using Hash = std::shared_ptr<const RowHash>;

struct Model {
  const char* name;
  std::function<Hash()> make;
};

Hash engram() {
  constexpr std::int64_t kCodes = 99092;
  const auto layers =
      ple::EngramHash::create_layers({.vocab_size = kCodes,
                                      .code_count = kCodes,
                                      .size_bases = {16'000'000, 16'000'000, 16'000'000},
                                      .layers = {1, 14}})
          .value();
  std::vector<ple::TokenId> map(kCodes);
  std::iota(map.begin(), map.end(), 0);
  return layers[0]->with_token_map(map).value();
}

const Model kModels[] = {
    {"qwen4_exp",
     [] { return ple::Qwen4ExpHash::create({.vocab_size = 248320, .eos_token = 248044}).value(); }},
    {"engram_v41", engram},
    {"longcat_lite",
     [] {
       return ple::LongcatHash::create({.vocab_size = 131072, .base = 131072, .size_ratio = 78})
           .value();
     }},
    {"longcat_2.0",
     [] {
       return ple::LongcatHash::create(
                  {.vocab_size = 163840, .base = 163840, .size_ratio = 100.567, .ngram_size = 5})
           .value();
     }},
    {"gemma_4",
     [] {
       return ple::GemmaHash::create({.vocab_size = 262144,
                                      .row_count = 262144,
                                      .placeholders = {258880, 258881, 258884}})
           .value();
     }},
};

double median_us(int repeats, const std::function<void()>& work) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<std::size_t>(repeats / 2)];
}

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 && std::string_view(argv[1]) == "--smoke" ? 1 : 101;
  constexpr std::size_t kTokenCount = 8192;
  std::mt19937 random(1);
  std::vector<ple::TokenId> tokens(kTokenCount);
  fmt::print("{:14} {:>8} {:>16} {:>10} {:>14}\n", "model", "columns", "8,192 tokens us",
             "ns/token", "constants us");
  for (const Model& model : kModels) {
    const Hash hash = model.make();
    for (auto& token : tokens) {
      token = static_cast<ple::TokenId>(random() % static_cast<unsigned>(hash->vocab_size()));
    }
    std::vector<ple::RowId> rows(kTokenCount * static_cast<std::size_t>(hash->column_count()));
    const double us = median_us(repeats, [&] { hash->row_ids({}, tokens, rows.data()); });
    const double constants_us = median_us(repeats, [&] { model.make(); });
    fmt::print("{:14} {:8} {:16.1f} {:10.2f} {:14.1f}\n", model.name, hash->column_count(), us,
               us * 1000.0 / kTokenCount, constants_us);
  }
  return 0;
}
