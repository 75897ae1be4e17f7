#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/number_formats.hpp"
#include "ngram/qwen4_exp_hash.hpp"
#include "support/golden_tensor.hpp"
#include "support/json_file.hpp"
#include "support/ple_cases.hpp"
#include "support/ple_problem.hpp"

// One layer at the released width whose weights come from a counter formula, with the output of the
// public reference, in f32 and in bf16.

namespace ple::test {

// Element n of a tensor is counter_value(seed, n), before its scale.
inline float counter_value(std::uint64_t seed, std::uint64_t n) {
  std::uint64_t x = (n + 1) * 0x9E3779B97F4A7C15U + seed * 0xD1342543DE82EF95U;
  x ^= x >> 30;
  x *= 0xBF58476D1CE4E5B9U;
  x ^= x >> 27;
  x *= 0x94D049BB133111EBU;
  x ^= x >> 31;
  return static_cast<float>(static_cast<double>(x >> 40) / 16777216.0 - 0.5);
}

struct WideCase {
  PleProblem problem;
  PleSequence sequence;       // its highway is rounded to bf16 in the bf16 case
  std::vector<float> output;  // what the reference adds, [token_count, stream_count, hidden]
};

// type is "f32" or "bf16": that of the reference.
inline WideCase wide_case(const std::string& type) {
  const std::string folder = "golden/qwen4_exp/";
  const nlohmann::json description = json_file(folder + "wide.json");
  const std::uint64_t seed = description.at("seed");
  std::map<std::string, std::vector<std::uint16_t>> tensors;
  for (std::size_t i = 0; i < description.at("parameters").size(); ++i) {
    const auto& [name, shape] =
        description["parameters"][i].get<std::pair<std::string, std::vector<std::int64_t>>>();
    const auto& scales = description.at("scales");
    const std::string stem = name.substr(0, name.find('.'));
    const float scale = scales.value(stem, scales.at("norms").get<float>());
    std::int64_t count = 1;
    for (const std::int64_t length : shape) count *= length;
    auto& values = tensors[stem];
    for (std::int64_t n = 0; n < count; ++n) {
      values.push_back(
          f32_to_bf16(counter_value(1000 * seed + i, static_cast<std::uint64_t>(n)) * scale));
    }
  }

  WideCase wide;
  wide.problem.shape = released_ple_shape();
  wide.problem.key = tensors.at("key_proj");
  wide.problem.value = tensors.at("value_proj");
  wide.problem.norm_key = tensors.at("norm_key");
  wide.problem.norm_query = tensors.at("norm_query");
  wide.problem.norm_conv = tensors.at("norm_conv");
  wide.problem.conv = tensors.at("conv1d");
  wide.problem.encoding = {RowFormat::bf16, 160, 320, 1.0F};
  wide.problem.slot_bytes = 320;
  const auto& table = tensors.at("ple_embedding");
  wide.problem.row_count = static_cast<std::uint32_t>(table.size() / 160);
  wide.problem.table.resize(table.size() * 2);
  std::memcpy(wide.problem.table.data(), table.data(), table.size() * 2);

  const std::string file = folder + "wide_" + type + ".safetensors";
  wide.output = golden_tensor<float>(file, "out");
  const auto ids = golden_tensor<std::int64_t>(file, "tokens");
  const std::vector<TokenId> tokens(ids.begin(), ids.end());
  const auto hash =
      Qwen4ExpHash::create({.vocab_size = 248320, .size_base = 3001, .eos_token = 248046});
  if (!hash.is_ok()) throw std::runtime_error(hash.status().message());
  wide.sequence.token_count = static_cast<std::int32_t>(tokens.size());
  wide.sequence.slots.resize(tokens.size() * 16);
  hash.value()->row_ids({}, tokens, wide.sequence.slots.data());
  for (std::size_t n = 0; n < wide.output.size(); ++n) {
    const float value = counter_value(description.at("hidden_seed"), n) *
                        description.at("hidden_scale").get<float>();
    wide.sequence.highway.push_back(type == "bf16" ? round_to_bf16(value) : value);
  }
  return wide;
}

}  // namespace ple::test
