#include "sequence/snapshot.hpp"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace ple {

namespace {

constexpr char kMagic[8] = {'P', 'L', 'E', 'S', 'N', 'A', 'P', '\0'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumBytes = 8;

// The start of a blob; little-endian, as every machine that this library runs on.
struct Header {
  char magic[8];
  std::uint32_t version;
  std::int32_t kind;
  std::uint64_t blob_bytes;  // checksum included
  std::uint64_t geometry_identity;
  std::uint64_t weights_identity;
  std::int64_t position;
  std::int32_t arithmetic;
  std::int32_t token_count;
  std::int32_t position_count;  // positions of float state
  std::int32_t layer_count;
};
static_assert(sizeof(Header) == 64);

struct LayerHeader {
  std::int32_t layer_index;
  std::int32_t stream_count;
  std::int32_t value_bytes;
  std::int32_t reserved;
};
static_assert(sizeof(LayerHeader) == 16);

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  void put(const void* data, std::size_t bytes) {
    if (bytes > 0) std::memcpy(out_.data() + used_, data, bytes);
    used_ += bytes;
  }
  std::size_t used() const { return used_; }

 private:
  std::span<std::byte> out_;
  std::size_t used_ = 0;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  bool take(void* data, std::size_t bytes) {
    if (bytes > in_.size()) return false;
    if (bytes > 0) std::memcpy(data, in_.data(), bytes);
    in_ = in_.subspan(bytes);
    return true;
  }
  bool is_at_end() const { return in_.empty(); }

 private:
  std::span<const std::byte> in_;
};

Status truncated(std::size_t bytes) {
  return error(StatusCode::corrupt, "snapshot truncated: {} bytes", bytes);
}

Status check_envelope(std::span<const std::byte> blob, Header& header) {
  if (!Reader(blob).take(&header, sizeof(header))) return truncated(blob.size());
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return error(StatusCode::corrupt, "not a snapshot: wrong magic");
  }
  if (header.version != kVersion) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another version: {}, this library reads {}", header.version,
                 kVersion);
  }
  if (header.blob_bytes > blob.size()) {
    return error(StatusCode::corrupt, "snapshot truncated: {} of {} bytes", blob.size(),
                 header.blob_bytes);
  }
  if (header.blob_bytes < blob.size() || blob.size() < sizeof(Header) + kChecksumBytes) {
    return error(StatusCode::corrupt, "snapshot size mismatch: {} bytes, its header says {}",
                 blob.size(), header.blob_bytes);
  }
  std::uint64_t checksum = 0;
  const std::size_t body = blob.size() - kChecksumBytes;
  std::memcpy(&checksum, blob.data() + body, kChecksumBytes);
  if (XXH3_64bits(blob.data(), body) != checksum) {
    return error(StatusCode::corrupt, "snapshot damaged: the checksum of its {} bytes differs",
                 body);
  }
  return {};
}

Status check_owner(const Header& header, const SnapshotIdentity& identity) {
  if (header.geometry_identity != identity.geometry) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another geometry: {:#018x}, this model is {:#018x}",
                 header.geometry_identity, identity.geometry);
  }
  if (header.weights_identity != identity.weights) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another table: {:#018x}, this model's is {:#018x}",
                 header.weights_identity, identity.weights);
  }
  if (header.arithmetic != identity.arithmetic) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another arithmetic: {}, this engine's is {}", header.arithmetic,
                 identity.arithmetic);
  }
  return {};
}

Status read_layer(Reader& reader, const Header& header, const SnapshotLayerShape& shape,
                  std::size_t blob_bytes, SnapshotLayer& layer) {
  LayerHeader layer_header{};
  if (!reader.take(&layer_header, sizeof(layer_header))) return truncated(blob_bytes);
  const std::int32_t value_bytes =
      header.kind == static_cast<std::int32_t>(SnapshotKind::full) ? shape.value_bytes : 0;
  if (layer_header.layer_index != shape.layer_index ||
      layer_header.stream_count != shape.stream_count || layer_header.value_bytes != value_bytes) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another geometry: layer {} with {} streams and {} bytes a position, "
                 "expected layer {} with {} and {}",
                 layer_header.layer_index, layer_header.stream_count, layer_header.value_bytes,
                 shape.layer_index, shape.stream_count, value_bytes);
  }
  const auto positions = static_cast<std::size_t>(header.position_count);
  layer.layer_index = shape.layer_index;
  layer.stream_count = shape.stream_count;
  layer.value_bytes = value_bytes;
  layer.gates.resize(positions * static_cast<std::size_t>(shape.stream_count));
  layer.values.resize(positions * static_cast<std::size_t>(value_bytes));
  if (!reader.take(layer.gates.data(), layer.gates.size() * sizeof(float)) ||
      !reader.take(layer.values.data(), layer.values.size())) {
    return truncated(blob_bytes);
  }
  return {};
}

}  // namespace

std::size_t encoded_bytes(const Snapshot& snapshot) {
  std::size_t bytes =
      sizeof(Header) + snapshot.recent_tokens.size() * sizeof(TokenId) + kChecksumBytes;
  for (const SnapshotLayer& layer : snapshot.layers) {
    bytes += sizeof(LayerHeader) + layer.gates.size() * sizeof(float) + layer.values.size();
  }
  return bytes;
}

void encode(const Snapshot& snapshot, std::span<std::byte> blob) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.kind = static_cast<std::int32_t>(snapshot.kind);
  header.blob_bytes = blob.size();
  header.geometry_identity = snapshot.identity.geometry;
  header.weights_identity = snapshot.identity.weights;
  header.position = snapshot.position;
  header.arithmetic = snapshot.identity.arithmetic;
  header.token_count = static_cast<std::int32_t>(snapshot.recent_tokens.size());
  header.position_count = snapshot.position_count;
  header.layer_count = static_cast<std::int32_t>(snapshot.layers.size());

  Writer writer(blob);
  writer.put(&header, sizeof(header));
  writer.put(snapshot.recent_tokens.data(), snapshot.recent_tokens.size() * sizeof(TokenId));
  for (const SnapshotLayer& layer : snapshot.layers) {
    const LayerHeader layer_header{layer.layer_index, layer.stream_count, layer.value_bytes, 0};
    writer.put(&layer_header, sizeof(layer_header));
    writer.put(layer.gates.data(), layer.gates.size() * sizeof(float));
    writer.put(layer.values.data(), layer.values.size());
  }
  const std::uint64_t checksum = XXH3_64bits(blob.data(), writer.used());
  writer.put(&checksum, sizeof(checksum));
}

Result<Snapshot> decode(std::span<const std::byte> blob, const SnapshotIdentity& identity,
                        std::int32_t window, std::int32_t lookback,
                        std::span<const SnapshotLayerShape> layers) {
  Header header{};
  PLE_TRY(check_envelope(blob, header));
  PLE_TRY(check_owner(header, identity));
  const auto reach = [&](std::int64_t most) { return std::min(header.position, most); };
  if (header.position < 0 || (header.kind != 0 && header.kind != 1) ||
      header.position_count != reach(window) ||
      header.token_count != reach(std::int64_t{window} + lookback) ||
      header.layer_count != static_cast<std::int32_t>(layers.size())) {
    return error(StatusCode::invalid_argument,
                 "snapshot of another geometry: position {}, {} ids, {} positions, {} layers",
                 header.position, header.token_count, header.position_count, header.layer_count);
  }
  Snapshot snapshot;
  snapshot.kind = static_cast<SnapshotKind>(header.kind);
  snapshot.identity = identity;
  snapshot.position = header.position;
  snapshot.position_count = header.position_count;
  snapshot.recent_tokens.resize(static_cast<std::size_t>(header.token_count));

  Reader reader(blob.first(blob.size() - kChecksumBytes));
  if (!reader.take(&header, sizeof(header)) ||
      !reader.take(snapshot.recent_tokens.data(),
                   snapshot.recent_tokens.size() * sizeof(TokenId))) {
    return truncated(blob.size());
  }
  for (const SnapshotLayerShape& shape : layers) {
    SnapshotLayer layer;
    PLE_TRY(read_layer(reader, header, shape, blob.size(), layer));
    snapshot.layers.push_back(std::move(layer));
  }
  if (!reader.is_at_end()) {
    return error(StatusCode::corrupt, "snapshot size mismatch: bytes left behind its last layer");
  }
  return snapshot;
}

}  // namespace ple
