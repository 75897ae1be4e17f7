#include "sequence/snapshot.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ple {
namespace {

constexpr std::int32_t kWindow = 9;
constexpr std::int32_t kLookback = 2;
constexpr SnapshotIdentity kIdentity{.geometry = 11, .weights = 22, .arithmetic = 1};
const std::vector<SnapshotLayerShape> kShapes{{1, 4, 80}, {14, 4, 80}};

Snapshot make_snapshot(SnapshotKind kind, std::int64_t position) {
  Snapshot snapshot;
  snapshot.kind = kind;
  snapshot.identity = kIdentity;
  snapshot.position = position;
  snapshot.position_count = static_cast<std::int32_t>(std::min<std::int64_t>(position, kWindow));
  snapshot.recent_tokens.resize(
      static_cast<std::size_t>(std::min<std::int64_t>(position, kWindow + kLookback)), 5);
  for (const SnapshotLayerShape& shape : kShapes) {
    SnapshotLayer layer{.layer_index = shape.layer_index,
                        .stream_count = shape.stream_count,
                        .value_bytes = kind == SnapshotKind::full ? shape.value_bytes : 0,
                        .gates = {},
                        .values = {}};
    const auto positions = static_cast<std::size_t>(snapshot.position_count);
    layer.gates.resize(positions * static_cast<std::size_t>(shape.stream_count), 0.25F);
    layer.values.resize(positions * static_cast<std::size_t>(layer.value_bytes), std::byte{7});
    snapshot.layers.push_back(layer);
  }
  return snapshot;
}

std::vector<std::byte> blob_of(const Snapshot& snapshot) {
  std::vector<std::byte> blob(encoded_bytes(snapshot));
  encode(snapshot, blob);
  return blob;
}

Status decode_status(std::span<const std::byte> blob, SnapshotIdentity identity = kIdentity,
                     std::span<const SnapshotLayerShape> shapes = kShapes) {
  return decode(blob, identity, kWindow, kLookback, shapes).status();
}

TEST(Snapshot, DecodesToWhatWasEncoded) {
  for (const SnapshotKind kind : {SnapshotKind::compact, SnapshotKind::full}) {
    for (const std::int64_t position : {0, 1, 5, 9, 11, 4000}) {
      const auto blob = blob_of(make_snapshot(kind, position));
      const auto decoded = decode(blob, kIdentity, kWindow, kLookback, kShapes);
      ASSERT_TRUE(decoded.is_ok()) << decoded.status().message();
      EXPECT_EQ(blob_of(decoded.value()), blob);
    }
  }
}

TEST(Snapshot, RefusesAnotherModelByName) {
  const auto blob = blob_of(make_snapshot(SnapshotKind::compact, 20));
  EXPECT_NE(decode_status(blob, {12, 22, 1}).message().find("another geometry"), std::string::npos);
  EXPECT_NE(decode_status(blob, {11, 23, 1}).message().find("another table"), std::string::npos);
  EXPECT_NE(decode_status(blob, {11, 22, 0}).message().find("another arithmetic"),
            std::string::npos);
  const std::vector<SnapshotLayerShape> wider{{1, 4, 80}, {14, 8, 80}};
  EXPECT_NE(decode_status(blob, kIdentity, wider).message().find("another geometry"),
            std::string::npos);
}

TEST(Snapshot, RefusesEveryTruncationAndExtension) {
  auto blob = blob_of(make_snapshot(SnapshotKind::full, 20));
  for (std::size_t bytes = 0; bytes < blob.size(); ++bytes) {
    const Status status = decode_status(std::span(blob).first(bytes));
    EXPECT_EQ(status.code(), StatusCode::corrupt);
    EXPECT_NE(status.message().find("truncated"), std::string::npos) << bytes;
  }
  blob.push_back(std::byte{0});
  EXPECT_NE(decode_status(blob).message().find("size mismatch"), std::string::npos);
}

TEST(Snapshot, RefusesEveryFlippedBit) {
  const auto blob = blob_of(make_snapshot(SnapshotKind::compact, 20));
  for (std::size_t bit = 0; bit < blob.size() * 8; ++bit) {
    auto flipped = blob;
    flipped[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_FALSE(decode_status(flipped).is_ok()) << bit;
  }
}

TEST(Snapshot, OfAnotherVersionIsRefusedByVersion) {
  auto blob = blob_of(make_snapshot(SnapshotKind::compact, 20));
  blob[8] = std::byte{2};
  EXPECT_NE(decode_status(blob).message().find("another version: 2"), std::string::npos);
}

TEST(Snapshot, CompactOfTheReleasedGeometryIsSmall) {
  Snapshot snapshot = make_snapshot(SnapshotKind::compact, 4000);
  snapshot.layers.resize(1);
  EXPECT_LT(encoded_bytes(snapshot), 512U);
}

}  // namespace
}  // namespace ple
