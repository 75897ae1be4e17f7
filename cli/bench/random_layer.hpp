#pragma once

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <vector>

namespace pleiades::cli {

// A model of one PLE layer of the released width, with random weights and a table of 102 MB, all in
// memory.
class RandomLayer {
 public:
  RandomLayer();

  const Model& model() const { return model_; }

 private:
  Model describe() const;

  // The model points into these.
  std::vector<std::uint16_t> rows_, key_, value_, norm_key_, norm_query_, norm_conv_, conv_;
  Model model_;
};

}  // namespace pleiades::cli
