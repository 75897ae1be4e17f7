#pragma once

#include <cstdint>

namespace ple::kernels {

// One panel of a product, as the kernels of projection.hpp take it.
template <class Element>
struct PanelProductArgs {
  const std::uint16_t* panel = nullptr;       // [pair_count, 64, 2] bf16
  const std::uint16_t* next_panel = nullptr;  // what to read ahead meanwhile, or null
  const Element* x = nullptr;                 // [token_count, x_stride], bf16 or f32
  float* product = nullptr;                   // [token_count, 64]
  std::int64_t x_stride = 0;
  std::int32_t pair_count = 0;
  std::int32_t block_pairs = 0;  // summed apart, then added to the product; at least 1
  std::int32_t token_count = 0;
  // The panel goes on from one whose product is there: the block's sum is added up further, or the
  // blocks' sums are added to it.
  bool is_continued = false;
  bool is_one_block = false;
};

using PanelProductBf16 = void (*)(const PanelProductArgs<std::uint16_t>& args);

// The kernel that uses the processor's bf16 dot product; null where there is none.
PanelProductBf16 panel_product_avx512bf16();

}  // namespace ple::kernels
