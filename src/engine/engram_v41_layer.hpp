#pragma once

#include "checkpoint/model_spec.hpp"
#include "engine/backend.hpp"
#include "engine/layer.hpp"
#include "kernels/engram_layer.hpp"

namespace ple {

// What is common to V4.1's layers of every device.
kernels::EngramShape engram_shape_of(const LayerSpec& layer);

// The official code multiplies FP8 by FP8 and gives bf16; without quantised activations, the
// product is bf16 in the reference alone.
kernels::EngramRounding engram_rounding_of(const LayerOptions& options);

// weight_bytes: of one element of the product's weights.
LayerTraits engram_traits(const kernels::EngramShape& shape, std::int64_t weight_bytes);

}  // namespace ple
