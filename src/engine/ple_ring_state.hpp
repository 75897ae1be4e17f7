#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "checkpoint/model_spec.hpp"
#include "engine/layer.hpp"
#include "kernels/ple_layer.hpp"
#include "sequence/snapshot.hpp"

namespace ple {

// What is common to the PLE layers of every device: what they cost, and how a ring in host memory
// stands in a snapshot. A position in a full one: the value row as the ring keeps it, then q of
// every stream.
class PleRingState {
 public:
  PleRingState(const kernels::PleShape& shape, kernels::Arithmetic arithmetic,
               std::int32_t ring_length)
      : shape_(shape), arithmetic_(arithmetic), ring_length_(ring_length) {}

  LayerTraits traits() const;

  // As in Layer.
  void save(const std::byte* ring, std::span<const std::int32_t> entries, SnapshotKind kind,
            SnapshotLayer& out) const;
  // Of a full snapshot.
  void restore(std::byte* ring, std::int32_t entry_begin, const SnapshotLayer& saved) const;

  std::int32_t entry_count(const SnapshotLayer& saved) const {
    return static_cast<std::int32_t>(saved.gates.size() /
                                     static_cast<std::size_t>(shape_.stream_count));
  }

 private:
  std::size_t gate_bytes() const {
    return static_cast<std::size_t>(shape_.stream_count) * sizeof(float);
  }
  std::size_t value_row_bytes() const {
    return static_cast<std::size_t>(shape_.hidden) *
           (arithmetic_ == kernels::Arithmetic::float32 ? 4 : 2);
  }
  std::size_t scalars_offset(std::int32_t entry) const {
    return static_cast<std::size_t>(
               kernels::PleRing::value_bytes(shape_, arithmetic_, ring_length_)) +
           static_cast<std::size_t>(entry) * 2 * gate_bytes();
  }

  kernels::PleShape shape_;
  kernels::Arithmetic arithmetic_;
  std::int32_t ring_length_;
};

// The shape of a layer of qwen4_exp or of the Engram demo.
kernels::PleShape ple_shape_of(const LayerSpec& layer);

}  // namespace ple
