#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ple {

// The values of ple_snapshot_kind.
enum class SnapshotKind : std::int32_t { compact = 0, full = 1 };

// What a snapshot must agree with to be restored: the same model, table and arithmetic.
struct SnapshotIdentity {
  std::uint64_t geometry = 0;
  std::uint64_t weights = 0;
  std::int32_t arithmetic = 0;
};

// One layer's carried state of the last positions, oldest first.
struct SnapshotLayer {
  std::int32_t layer_index = 0;
  std::int32_t stream_count = 0;
  std::int32_t value_bytes = 0;   // of one position; 0 in a compact snapshot
  std::vector<float> gates;       // [position_count, stream_count]
  std::vector<std::byte> values;  // [position_count, value_bytes]
};

// A sequence's state as plain data (docs/snapshot-format.md has every byte).
struct Snapshot {
  SnapshotKind kind = SnapshotKind::compact;
  SnapshotIdentity identity;
  std::int64_t position = 0;
  std::int32_t position_count = 0;     // of float state: min(position, window)
  std::vector<TokenId> recent_tokens;  // oldest first
  std::vector<SnapshotLayer> layers;
};

// What the restoring side expects of each layer, in order.
struct SnapshotLayerShape {
  std::int32_t layer_index = 0;
  std::int32_t stream_count = 0;
  std::int32_t value_bytes = 0;  // of one position
};

std::size_t encoded_bytes(const Snapshot& snapshot);

// Writes exactly encoded_bytes(snapshot) bytes.
void encode(const Snapshot& snapshot, std::span<std::byte> blob);

// Reads a blob, refusing by name whatever is not a snapshot of this version, model, table,
// arithmetic and length: `corrupt` for damaged bytes, `invalid_argument` for another's snapshot.
Result<Snapshot> decode(std::span<const std::byte> blob, const SnapshotIdentity& identity,
                        std::int32_t window, std::int32_t lookback,
                        std::span<const SnapshotLayerShape> layers);

}  // namespace ple
