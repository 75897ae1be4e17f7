#pragma once

#include <cstddef>
#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <vector>

#include "bench/ceilings.hpp"

namespace pleiades::cli {

// A layer of any family, with text and input to run through it.
class TimedLayer {
 public:
  // model outlives it.
  TimedLayer(const Model& model, const ple_layer_info& info);

  const Model& model() const { return model_; }
  std::int32_t index() const { return info_.layer_index; }

  // Tokens [begin, begin + count) of an endless random text, and the layer's input there.
  std::vector<std::int32_t> tokens(std::int64_t begin, std::int32_t count) const;
  std::vector<std::byte> input(ple_element element, std::int64_t begin, std::int32_t count) const;
  std::size_t input_bytes(ple_element element, std::int32_t count) const;
  std::size_t output_bytes(ple_element element, std::int32_t count) const;

  Products products() const { return products_; }
  // Of the projections, which a step reads once.
  double weight_bytes() const { return weight_bytes_; }
  double flops(std::int32_t token_count) const;

 private:
  const Model& model_;
  ple_layer_info info_;
  std::int32_t vocab_size_;
  Products products_;
  double weight_bytes_;
};

}  // namespace pleiades::cli
