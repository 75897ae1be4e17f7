#pragma once

#include <cstddef>
#include <span>

#include "base/types.hpp"

namespace ple {

// The tokens of a call with the history before them, addressed by index from the first token:
// negative indices reach into the history.
class TokenWindow {
 public:
  TokenWindow(std::span<const TokenId> history, std::span<const TokenId> tokens)
      : history_(history), tokens_(tokens) {}

  // Whether something precedes or stands at index; false before the sequence's start.
  bool has(std::ptrdiff_t index) const { return index >= -std::ssize(history_); }
  TokenId operator[](std::ptrdiff_t index) const {
    return index >= 0 ? tokens_[static_cast<std::size_t>(index)]
                      : history_[static_cast<std::size_t>(index + std::ssize(history_))];
  }

 private:
  std::span<const TokenId> history_;
  std::span<const TokenId> tokens_;
};

}  // namespace ple
