#pragma once

#include <cmath>

#include "base/number_formats.hpp"
#include "checkpoint/model_spec.hpp"
#include "kernels/gemma_layer.hpp"

namespace ple {

// A bf16 model holds the row's scale as a bf16 tensor, and Gemma 3n the other two as well.
inline kernels::GemmaScales gemma_scales(const GemmaLayer& parts, bool is_bf16) {
  kernels::GemmaScales scales{.row = static_cast<float>(std::sqrt(parts.layer_dim)),
                              .projection = static_cast<float>(1.0 / std::sqrt(parts.hidden)),
                              .sum = static_cast<float>(1.0 / std::sqrt(2.0))};
  if (is_bf16) scales.row = round_to_bf16(scales.row);
  if (is_bf16 && parts.scalars_in_bf16) {
    scales.projection = round_to_bf16(scales.projection);
    scales.sum = round_to_bf16(scales.sum);
  }
  return scales;
}

}  // namespace ple
