#pragma once

#include <cstddef>
#include <cstdint>

#include "base/types.hpp"
#include "kernels/carver.hpp"
#include "kernels/ple_layer_cuda.hpp"

namespace ple::kernels {

// What changes from step to step in a layer without carried state, at stable addresses.
struct TokenStepView {
  PleStepCounts* counts = nullptr;
  TokenId* tokens = nullptr;      // [token_capacity]
  std::uint8_t* flags = nullptr;  // [token_capacity], what they say is the family's own
  SlotId* slots = nullptr;        // [token_capacity, column_count]; kNoTokenSlot, the first of a
                                  // token behind the last one
};

// A step's block of bytes, as PleStepBlock; 256-byte aligned.
struct TokenStepBlock {
  static TokenStepView carve(Carver& carver, std::int32_t column_count,
                             std::int32_t token_capacity) {
    const auto tokens = static_cast<std::size_t>(token_capacity);
    TokenStepView view;
    view.counts = carver.take<PleStepCounts>(1);
    view.tokens = carver.take<TokenId>(tokens);
    view.flags = carver.take<std::uint8_t>(tokens);
    view.slots = carver.take<SlotId>(tokens * static_cast<std::size_t>(column_count));
    return view;
  }
  static TokenStepView view(std::byte* block, std::int32_t column_count,
                            std::int32_t token_capacity) {
    Carver carver(block);
    return carve(carver, column_count, token_capacity);
  }
  static std::size_t bytes(std::int32_t column_count, std::int32_t token_capacity) {
    Carver carver(nullptr);
    carve(carver, column_count, token_capacity);
    return carver.used();
  }
};

}  // namespace ple::kernels
