#pragma once

#include <cstddef>
#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <vector>

#include "bench/ceilings.hpp"

namespace pleiades::cli {

// A PLE layer of the released width with random weights and a table of 102 MB, all in memory, and
// text to run through it.
class RandomLayer {
 public:
  static constexpr std::int32_t kLayer = 1;

  RandomLayer();

  const Model& model() const { return model_; }

  // Tokens [begin, begin + count) of an endless random text, and the highway there.
  std::vector<std::int32_t> tokens(std::int64_t begin, std::int32_t count) const;
  std::vector<std::byte> highway(ple_element element, std::int64_t begin, std::int32_t count) const;

  Products products() const;
  // Of the two projections, which a step reads once.
  double weight_bytes() const;
  double flops(std::int32_t token_count) const;

 private:
  Model describe() const;

  // The model points into these.
  std::vector<std::uint16_t> rows_, key_, value_, norm_key_, norm_query_, norm_conv_, conv_;
  Model model_;
};

}  // namespace pleiades::cli
