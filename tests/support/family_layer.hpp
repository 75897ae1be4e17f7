#pragma once

#include <pleiades/pleiades.hpp>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "support/golden_tensor.hpp"

namespace ple::test {

// One layer of a tiny golden model, and its name in tests.
struct FamilyCase {
  const char* model;  // below tests/data/golden
  std::int32_t layer;

  friend std::ostream& operator<<(std::ostream& out, const FamilyCase& c) {
    return out << c.model << " layer " << c.layer;
  }
};

// Every layer of every family but qwen4_exp.
inline constexpr FamilyCase kFamilyCases[] = {{"engram_v41/tiny_hc4", 1},
                                              {"engram_v41/tiny_hc4", 14},
                                              {"engram_v41/tiny_hc2", 0},
                                              {"engram_v41/tiny_hc2", 3},
                                              {"engram_v41/tiny_hc2", 7},
                                              {"engram_demo/tiny_hc4", 1},
                                              {"engram_demo/tiny_hc4", 15},
                                              {"engram_demo/tiny_hc2", 0},
                                              {"engram_demo/tiny_hc2", 2},
                                              {"longcat/tiny_lite", 0},
                                              {"longcat/tiny_lite_float_ratio", 0},
                                              {"longcat/tiny_next", 0},
                                              {"gemma/tiny_gemma3n", 0},
                                              {"gemma/tiny_gemma4", 0}};

// The cases of the families that begin so.
inline std::vector<FamilyCase> family_cases(std::string_view prefix) {
  std::vector<FamilyCase> cases;
  for (const FamilyCase& c : kFamilyCases) {
    if (std::string_view(c.model).starts_with(prefix)) cases.push_back(c);
  }
  return cases;
}

// The model of a case, with the token map of its golden file.
class FamilyLayer {
 public:
  static constexpr std::size_t kSequences = 2;

  explicit FamilyLayer(const FamilyCase& c)
      : file_("golden/" + std::string(c.model) + "_io.safetensors"),
        model_(pleiades::Model::open(std::string(PLE_TEST_DATA) + "/golden/" + c.model)),
        info_(layer_of(model_, c.layer)) {
    if (has_token_map()) model_.set_token_map(golden_tensor<std::int32_t>(file_, "token_map"));
  }

  const pleiades::Model& model() const { return model_; }
  const ple_layer_info& info() const { return info_; }
  ple_family family() const { return model_.info().family; }
  bool has_token_map() const {
    return family() == PLE_FAMILY_ENGRAM_V41 || family() == PLE_FAMILY_ENGRAM_DEMO;
  }
  bool has_dead_tokens() const { return family() == PLE_FAMILY_ENGRAM_V41; }
  bool takes_input() const { return info_.input_elements > 0; }

  // The reference returns the updated stream in V4.1, and what is added, or all there is,
  // elsewhere.
  ple_output_mode golden_mode() const {
    return family() == PLE_FAMILY_ENGRAM_V41 ? PLE_OUTPUT_UPDATE : PLE_OUTPUT_DELTA;
  }

  // Of both sequences, one after the other; -1 where masked.
  std::vector<std::int32_t> golden_tokens() const {
    const auto ids = golden_tensor<std::int64_t>(file_, "input_ids");
    std::vector<std::int32_t> tokens(ids.begin(), ids.end());
    if (has_dead_tokens()) {
      const auto mask = golden_tensor<std::uint8_t>(file_, "token_mask");
      for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = mask[i] != 0 ? tokens[i] : -1;
    }
    return tokens;
  }
  // Empty for layers that take none. tag: the arithmetic of Gemma's own.
  std::vector<float> golden_input(const std::string& tag) const {
    if (!takes_input()) return {};
    return golden_reals(
        file_, family() == PLE_FAMILY_GEMMA ? tag + ".inputs_embeds" : prefix() + "hidden_in");
  }
  std::vector<float> golden(const std::string& name) const { return golden_reals(file_, name); }
  std::string prefix() const { return "layer" + std::to_string(info_.layer_index) + "."; }

 private:
  static ple_layer_info layer_of(const pleiades::Model& model, std::int32_t layer_index) {
    for (const ple_layer_info& info : model.layers()) {
      if (info.layer_index == layer_index) return info;
    }
    throw std::runtime_error("no layer " + std::to_string(layer_index));
  }

  std::string file_;
  pleiades::Model model_;
  ple_layer_info info_;
};

inline std::uint16_t bf16_bits(float exact) {
  std::uint32_t bits;
  std::memcpy(&bits, &exact, sizeof(bits));
  return static_cast<std::uint16_t>(bits >> 16);
}

inline float bf16_value(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Runs the staged step of token_count tokens and gives its output, widened. The input holds values
// that are exact in the element type.
inline std::vector<float> run_staged(pleiades::Step& step, const ple_layer_info& layer,
                                     std::span<const float> input, std::size_t token_count,
                                     ple_element element, ple_output_mode mode) {
  std::vector<float> output(token_count * static_cast<std::size_t>(layer.output_elements));
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.element = element;
  args.mode = mode;
  if (token_count == 0) return output;
  if (element == PLE_F32) {
    args.input = input.data();
    args.output = output.data();
    step.run(layer.layer_index, args);
    return output;
  }
  std::vector<std::uint16_t> narrow_input(input.size());
  std::transform(input.begin(), input.end(), narrow_input.begin(), bf16_bits);
  std::vector<std::uint16_t> narrow_output(output.size());
  args.input = narrow_input.data();
  args.output = narrow_output.data();
  step.run(layer.layer_index, args);
  std::transform(narrow_output.begin(), narrow_output.end(), output.begin(), bf16_value);
  return output;
}

}  // namespace ple::test
