#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/ple_layer_cpu.hpp"
#include "kernels/step_tiles_cpu.hpp"

// What a step of the PLE layer and the rebuilding of a ring have in common on the CPU: from rows to
// values, from values and gamma to q, and into a ring.

namespace ple::kernels {

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
  void gather(TokenTile tile, ThreadPool& pool) const { x_.gather(tile, pool); }
  Activations<std::uint16_t> embeddings(std::int32_t tile_begin, std::int32_t count) const {
    return x_.tokens(tile_begin, count);
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
  const float* const value_bias_;  // [hidden], or null
  const GatheredTile x_;
  std::byte* values_;  // [token_count, hidden]
  float* scalars_;     // [token_count, 2, stream_count]
};

// Refuses a shape, rows or a ring that do not fit the weights.
Status check_ple_shape(const PleShape& shape, const RowView& rows, std::int32_t ring_length,
                       const PleWeightsCpu& weights);

}  // namespace ple::kernels
