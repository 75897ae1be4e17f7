// A snapshot blob from anywhere is restored or refused, never more: decoding reads nothing outside
// it, allocates no more than it is long, and what it accepts is encoded to the same bytes.

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "sequence/snapshot.hpp"

namespace {

constexpr std::int32_t kWindow = 9;
constexpr std::int32_t kLookback = 2;
constexpr ple::SnapshotIdentity kIdentity{.geometry = 11, .weights = 22, .arithmetic = 1};
constexpr ple::SnapshotLayerShape kShapes[] = {{1, 4, 80}, {14, 4, 80}};

void decode(std::span<const std::byte> blob) {
  const auto decoded = ple::decode(blob, kIdentity, kWindow, kLookback, kShapes);
  if (!decoded.is_ok()) return;
  std::vector<std::byte> again(ple::encoded_bytes(decoded.value()));
  ple::encode(decoded.value(), again);
  // Reserved bytes are not kept; everything else is.
  if (again.size() != blob.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> blob(reinterpret_cast<const std::byte*>(data), size);
  decode(blob);
  // The same with a length and a checksum that fit, so that what is behind them is reached.
  if (size < 32) return 0;
  std::vector<std::byte> sealed(blob.begin(), blob.end());
  const std::uint64_t blob_bytes = size;
  std::memcpy(sealed.data() + 16, &blob_bytes, sizeof blob_bytes);
  const std::uint64_t checksum = XXH3_64bits(sealed.data(), size - sizeof blob_bytes);
  std::memcpy(sealed.data() + size - sizeof checksum, &checksum, sizeof checksum);
  decode(sealed);
  return 0;
}
