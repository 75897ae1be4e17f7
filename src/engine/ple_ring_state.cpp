#include "engine/ple_ring_state.hpp"

#include <cstring>

namespace ple {

LayerTraits PleRingState::traits() const {
  const std::int64_t highway = std::int64_t{shape_.stream_count} * shape_.hidden;
  LayerTraits traits;
  traits.input_elements = highway;
  traits.output_elements = highway;
  traits.window = shape_.window();
  traits.stream_count = shape_.stream_count;
  traits.value_bytes = static_cast<std::int32_t>(value_row_bytes() + gate_bytes());
  traits.state_bytes = kernels::PleRing::bytes(shape_, arithmetic_, ring_length_);
  traits.dense_bytes = static_cast<std::uint64_t>(highway + shape_.hidden) *
                           static_cast<std::uint64_t>(shape_.embed_dim) * 2 +
                       static_cast<std::uint64_t>(highway * (3 + shape_.tap_count)) * 2;
  return traits;
}

void PleRingState::save(const std::byte* ring, std::span<const std::int32_t> entries,
                        SnapshotKind kind, SnapshotLayer& out) const {
  const std::size_t gate_bytes = this->gate_bytes();
  const std::size_t row_bytes = value_row_bytes();
  out.stream_count = shape_.stream_count;
  out.value_bytes =
      kind == SnapshotKind::full ? static_cast<std::int32_t>(row_bytes + gate_bytes) : 0;
  out.gates.resize(entries.size() * static_cast<std::size_t>(shape_.stream_count));
  out.values.resize(entries.size() * static_cast<std::size_t>(out.value_bytes));
  auto* gates = reinterpret_cast<std::byte*>(out.gates.data());
  std::byte* values = out.values.data();
  for (const std::int32_t entry : entries) {
    const std::byte* scalars = ring + scalars_offset(entry);
    std::memcpy(gates, scalars, gate_bytes);
    gates += gate_bytes;
    if (kind == SnapshotKind::compact) continue;
    std::memcpy(values, ring + static_cast<std::size_t>(entry) * row_bytes, row_bytes);
    std::memcpy(values + row_bytes, scalars + gate_bytes, gate_bytes);
    values += row_bytes + gate_bytes;
  }
}

void PleRingState::restore(std::byte* ring, std::int32_t entry_begin,
                           const SnapshotLayer& saved) const {
  const std::size_t gate_bytes = this->gate_bytes();
  const std::size_t row_bytes = value_row_bytes();
  const auto* gates = reinterpret_cast<const std::byte*>(saved.gates.data());
  const std::byte* values = saved.values.data();
  for (std::int32_t entry = entry_begin; entry < entry_begin + entry_count(saved); ++entry) {
    std::byte* scalars = ring + scalars_offset(entry);
    std::memcpy(scalars, gates, gate_bytes);
    std::memcpy(scalars + gate_bytes, values + row_bytes, gate_bytes);
    std::memcpy(ring + static_cast<std::size_t>(entry) * row_bytes, values, row_bytes);
    gates += gate_bytes;
    values += row_bytes + gate_bytes;
  }
}

kernels::PleShape ple_shape_of(const LayerSpec& layer) {
  const auto shape_of = [&](const auto& parts, float conv_eps) -> kernels::PleShape {
    return {.hidden = parts.hidden,
            .stream_count = parts.stream_count,
            .embed_dim = parts.embed_dim,
            .column_count = layer.hash->column_count(),
            .tap_count = parts.tap_count,
            .dilation = parts.dilation,
            .eps = parts.eps,
            .conv_eps = conv_eps};
  };
  if (const auto* parts = std::get_if<EngramDemoLayer>(&layer.parts)) {
    return shape_of(*parts, parts->conv_eps);
  }
  const auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  return shape_of(parts, parts.eps);
}

}  // namespace ple
