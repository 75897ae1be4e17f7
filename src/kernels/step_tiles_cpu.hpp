#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/row_view.hpp"
#include "base/thread_pool.hpp"
#include "base/types.hpp"
#include "kernels/gather_rows.hpp"
#include "kernels/projection.hpp"

// What the layers of all families do alike on the CPU: they cut a step into tiles of tokens, take
// scratch memory for a tile, and gather its rows.

namespace ple::kernels {

inline constexpr std::int32_t kPanelRows = PackedMatrix::kPanelRows;
inline constexpr std::size_t kLineBytes = 64;

// Tokens of one pass over the weights. Passes are of nearly equal size: a last one of a few tokens
// would read all weights for them.
struct TokenTile {
  static constexpr std::int32_t kTokensMax = 512;

  std::int32_t token_begin = 0;
  std::int32_t token_count = 0;

  // Tokens that the memory of a tile is made for; never fewer in a longer step.
  static std::int32_t capacity(std::int32_t token_count) {
    return std::min(token_count, kTokensMax);
  }

  // body(tile) for all tiles of a step, in order.
  template <class Body>
  static void for_each(std::int32_t token_count, Body&& body) {
    if (token_count == 0) return;
    const std::int32_t tile_count = (token_count + kTokensMax - 1) / kTokensMax;
    const std::int32_t tile_length = (token_count + tile_count - 1) / tile_count;
    for (std::int32_t begin = 0; begin < token_count; begin += tile_length) {
      body(TokenTile{begin, std::min(tile_length, token_count - begin)});
    }
  }
};

// Hands out parts of the scratch memory one after the other. Without memory it only counts.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t offset = bytes_;
    bytes_ +=
        (static_cast<std::size_t>(count) * sizeof(T) + kLineBytes - 1) / kLineBytes * kLineBytes;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

// The rows of one tile of tokens, decoded to bf16: token t's are the row [stride] number t, its
// columns one behind the other, zero behind them.
class GatheredTile {
 public:
  struct Inputs {
    RowView rows;
    const SlotId* slots = nullptr;  // [token_count of the step, column_count]
    std::int32_t column_count = 0;
    std::int64_t stride = 0;    // in elements, even
    std::int64_t capacity = 0;  // tokens of the largest tile
  };

  GatheredTile(const Inputs& inputs, ScratchParts& scratch)
      : inputs_(inputs), x_(scratch.take<std::uint16_t>(inputs.capacity * inputs.stride)) {}

  void gather(TokenTile tile, ThreadPool& pool) const {
    pool.parallel_ranges(tile.token_count, [&](std::int64_t begin, std::int64_t end) {
      const std::int64_t first_row = (tile.token_begin + begin) * inputs_.column_count;
      gather_rows_cpu({.rows = inputs_.rows,
                       .slots = inputs_.slots + first_row,
                       .out = token(begin),
                       .stride = inputs_.stride,
                       .token_count = static_cast<std::int32_t>(end - begin),
                       .column_count = inputs_.column_count});
    });
  }

  // Of tokens counted from the tile's first one.
  std::uint16_t* token(std::int64_t tile_token) const { return x_ + tile_token * inputs_.stride; }
  Activations<std::uint16_t> tokens(std::int64_t tile_begin, std::int32_t count) const {
    return {token(tile_begin), inputs_.stride, count};
  }

 private:
  const Inputs inputs_;
  std::uint16_t* x_;
};

// The stride of rows of that many bf16 elements that each begin on a cache line.
inline std::int64_t line_stride(std::int64_t element_count) {
  constexpr std::int64_t kLineElements = kLineBytes / sizeof(std::uint16_t);
  return (element_count + kLineElements - 1) / kLineElements * kLineElements;
}

}  // namespace ple::kernels
