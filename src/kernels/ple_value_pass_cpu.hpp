#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/ple_layer_cpu.hpp"

// What a step of the PLE layer and the rebuilding of a ring have in common on the CPU: from rows to
// values, from values and gamma to q, and into a ring.

namespace ple::kernels {

inline constexpr std::int32_t kPanelRows = PackedMatrix::kPanelRows;
inline constexpr std::int32_t kProductTokens = 48;  // whose product of a panel stays in the L1
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

class ValuePass {
 public:
  struct Inputs {
    PleShape shape;
    Arithmetic arithmetic;
    RowView rows;
    const SlotId* slots;  // [token_count, column_count]
    std::int32_t token_count;
  };

  ValuePass(const Inputs& inputs, const PleWeightsCpu& weights, ScratchParts& scratch);

  // The embeddings of a tile.
  void gather(TokenTile tile, ThreadPool& pool) const;
  Activations<std::uint16_t> embeddings(std::int32_t tile_begin, std::int32_t count) const {
    return {x_ + tile_begin * x_stride_, x_stride_, count};
  }

  // One panel of the value product of a gathered tile, into values().
  void value_panel(std::int32_t panel_index, const std::uint16_t* next_panel, TokenTile tile) const;

  // [hidden], f32 in float32, else bf16.
  const std::byte* values(std::int32_t token) const { return values_ + token * value_bytes(); }
  std::int64_t value_bytes() const;

  // [2, stream_count]: gamma, then q.
  float* scalars(std::int32_t token) const {
    return scalars_ + std::int64_t{token} * 2 * inputs_.shape.stream_count;
  }

  // q of all streams of a token, from its values and its gamma.
  void set_conv_roots(std::int32_t token) const;

  void write_ring(std::byte* ring, std::int32_t ring_length, std::int32_t entry,
                  std::int32_t token) const;

 private:
  void store_values(const float* from, std::int32_t count, std::int64_t index) const;

  const Inputs inputs_;
  const PackedMatrix& matrix_;
  std::byte* values_;  // [token_count, hidden]
  float* scalars_;     // [token_count, 2, stream_count]
  std::uint16_t* x_;   // [tile, x_stride] bf16
  std::int64_t x_stride_;
};

// Refuses a shape, rows or a ring that do not fit the weights.
Status check_ple_shape(const PleShape& shape, const RowView& rows, std::int32_t ring_length,
                       const PleWeightsCpu& weights);

}  // namespace ple::kernels
