#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "support/random.hpp"
#include "support/random_model.hpp"

namespace ple::test {

// A model that engines of every device are tested with.
struct ModelCase {
  std::string name;
  ModelSizes sizes;
  bool is_random = false;  // the sizes are drawn by the test

  friend std::ostream& operator<<(std::ostream& out, const ModelCase& model_case) {
    return out << model_case.name;
  }
};

// Sizes of every kind that all devices run.
inline std::vector<ModelCase> model_cases() {
  std::vector<ModelCase> cases = {
      {"Small", {}},
      {"TheLeast", {8, 2, 2, 1, 1, 2, PLE_ROW_BF16, {0}}},
      {"ManyStreams", {64, 8, 2, 5, 9, 4, PLE_ROW_BF16, {0}}},
      {"LongGrams", {96, 4, 5, 2, 11, 3, PLE_ROW_BF16, {2}}},
      {"Fp8", {128, 4, 3, 8, 20, 4, PLE_ROW_FP8_E4M3, {1, 2}}},
      {"OddFp8", {72, 2, 3, 1, 7, 4, PLE_ROW_FP8_E4M3, {0}}},
      {"Wide", {1288, 4, 3, 8, 40, 4, PLE_ROW_BF16, {0}}},
  };
  for (int i = 0; i < 8; ++i) cases.push_back({"Random" + std::to_string(i), {}, true});
  return cases;
}

inline ModelSizes sizes_of(const ModelCase& model_case, Random& random) {
  if (!model_case.is_random) return model_case.sizes;
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return static_cast<std::int32_t>(random.between(least, most));
  };
  return {.hidden = 8 * draw(1, 40),
          .stream_count = draw(2, 8),
          .ngram_size = draw(2, 4),
          .heads_per_ngram = draw(1, 4),
          .row_dim = draw(1, 48),
          .tap_count = draw(2, 4),
          .row_format = random.chance(0.5) ? PLE_ROW_BF16 : PLE_ROW_FP8_E4M3,
          .layers = {draw(0, 3)}};
}

}  // namespace ple::test
