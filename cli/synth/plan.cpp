#include "synth/plan.hpp"

namespace pleiades::cli {

std::uint64_t PlannedTensor::row_count() const { return shape.empty() ? 1 : shape.front(); }

std::uint64_t PlannedTensor::row_elements() const {
  std::uint64_t elements = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) elements *= shape[i];
  return elements;
}

std::uint64_t PlannedTensor::bytes() const {
  if (!literal.empty()) return literal.size();
  return row_count() * row_elements() * element_bytes(noise.format);
}

std::uint64_t CheckpointPlan::bytes() const {
  std::uint64_t total = 0;
  for (const PlannedTensor& tensor : tensors) total += tensor.bytes();
  return total;
}

}  // namespace pleiades::cli
