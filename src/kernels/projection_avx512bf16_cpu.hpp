#pragma once

#include <cstdint>

namespace ple::kernels {

// One panel of a product with bf16 activations: panel [pair_count, 64, 2] bf16, x [token_count,
// x_stride] bf16, product [token_count, 64] f32.
using PanelProductBf16 = void (*)(const std::uint16_t* panel, std::int32_t pair_count,
                                  const std::uint16_t* x, std::int64_t x_stride,
                                  std::int32_t token_count, float* product);

// The kernel that uses the processor's bf16 dot product; null where there is none.
PanelProductBf16 panel_product_avx512bf16();

}  // namespace ple::kernels
