#include "table/block_sums.hpp"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "checkpoint/input_file.hpp"
#include "io/replace_file.hpp"

namespace ple {

namespace {

constexpr char kMagic[8] = {'P', 'L', 'E', 'C', 'R', 'C', '3', '2'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChunkBytes = std::size_t{1} << 20;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t block_bytes;
  std::uint64_t file_bytes;
  std::uint64_t sum_count;
  std::uint32_t sums_crc;
  std::uint32_t header_crc;
};
static_assert(sizeof(Header) == 40);
static_assert(offsetof(Header, header_crc) == 36);

std::uint32_t crc32c(const void* data, std::size_t bytes) {
  // The library takes the data as writable, and lengths as int.
  auto* at = static_cast<unsigned char*>(const_cast<void*>(data));
  std::uint32_t state = 0xFFFFFFFF;
  while (bytes > 0) {
    const std::size_t count = std::min(bytes, kChunkBytes);
    state = ::crc32_iscsi(at, static_cast<int>(count), state);
    at += count;
    bytes -= count;
  }
  return ~state;
}

std::string sums_path(const std::string& path) { return path + ".crc32c"; }

std::uint64_t sum_count_of(std::uint64_t file_bytes) {
  return file_bytes / BlockSums::kBlockBytes + (file_bytes % BlockSums::kBlockBytes != 0 ? 1 : 0);
}

Header header_of(std::uint64_t file_bytes, std::span<const std::uint32_t> sums) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.block_bytes = BlockSums::kBlockBytes;
  header.file_bytes = file_bytes;
  header.sum_count = sums.size();
  header.sums_crc = crc32c(sums.data(), sums.size_bytes());
  header.header_crc = crc32c(&header, offsetof(Header, header_crc));
  return header;
}

// done counts the bytes of the files before this one.
Status write_sums(const ModelFile& model_file, std::uint64_t done, std::uint64_t total,
                  const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(model_file.path));
  if (file.bytes() != model_file.bytes) {
    return error(StatusCode::corrupt, "file '{}' has {} bytes where {} are expected",
                 model_file.path, file.bytes(), model_file.bytes);
  }
  std::vector<std::byte> bytes(sizeof(Header) + sum_count_of(file.bytes()) * sizeof(std::uint32_t));
  std::vector<std::uint32_t> sums;
  std::vector<std::byte> chunk(kChunkBytes);
  for (std::uint64_t offset = 0; offset < file.bytes(); offset += chunk.size()) {
    chunk.resize(std::min<std::uint64_t>(kChunkBytes, file.bytes() - offset));
    PLE_TRY(file.read(offset, chunk));
    for (std::size_t at = 0; at < chunk.size(); at += BlockSums::kBlockBytes) {
      const std::size_t count = std::min<std::size_t>(BlockSums::kBlockBytes, chunk.size() - at);
      sums.push_back(crc32c(chunk.data() + at, count));
    }
    if (!progress(done + offset + chunk.size(), total)) {
      return error(StatusCode::wrong_state, "stopped after {} of {} bytes", done + offset, total);
    }
  }
  const Header header = header_of(file.bytes(), sums);
  std::memcpy(bytes.data(), &header, sizeof header);
  std::memcpy(bytes.data() + sizeof header, sums.data(), sums.size() * sizeof sums[0]);
  return replace_file(sums_path(model_file.path), bytes);
}

}  // namespace

Result<std::optional<BlockSums>> BlockSums::load(const std::string& path,
                                                 std::uint64_t file_bytes) {
  const std::string name = sums_path(path);
  std::error_code ignored;
  if (!std::filesystem::exists(name, ignored)) return std::optional<BlockSums>();
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(name));
  BlockSums sums;
  sums.file_bytes_ = file_bytes;
  const std::uint64_t sum_count = sum_count_of(file_bytes);
  Header header{};
  if (file.bytes() < sizeof header) {
    return error(StatusCode::corrupt, "checksums '{}': truncated, {} bytes", name, file.bytes());
  }
  PLE_TRY(file.read(0, std::as_writable_bytes(std::span(&header, 1))));
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.version != kVersion ||
      header.block_bytes != kBlockBytes) {
    return error(StatusCode::corrupt, "checksums '{}': not of version {} with blocks of {} bytes",
                 name, kVersion, kBlockBytes);
  }
  if (header.file_bytes != file_bytes) {
    return error(StatusCode::corrupt, "checksums '{}': made for a file of {} bytes, not of {}",
                 name, header.file_bytes, file_bytes);
  }
  if (file.bytes() != sizeof header + sum_count * sizeof(std::uint32_t)) {
    return error(StatusCode::corrupt, "checksums '{}': {} bytes where {} sums are due", name,
                 file.bytes(), sum_count);
  }
  sums.sums_.resize(sum_count);
  PLE_TRY(file.read(sizeof header, std::as_writable_bytes(std::span(sums.sums_))));
  const Header expected = header_of(file_bytes, sums.sums_);
  if (std::memcmp(&header, &expected, sizeof header) != 0) {
    return error(StatusCode::corrupt, "checksums '{}': damaged", name);
  }
  return std::optional<BlockSums>(std::move(sums));
}

std::optional<std::uint64_t> BlockSums::first_bad_block(std::uint64_t offset,
                                                        std::span<const std::byte> data) const {
  const std::uint64_t data_end = std::min(offset + data.size(), file_bytes_);
  for (std::uint64_t begin = offset; begin < data_end; begin += kBlockBytes) {
    const std::uint64_t end = std::min(begin + kBlockBytes, file_bytes_);
    if (end > data_end) break;
    const std::byte* block = data.data() + (begin - offset);
    if (crc32c(block, end - begin) != sums_[begin / kBlockBytes]) return begin;
  }
  return std::nullopt;
}

Status write_block_sums(const ModelSpec& model,
                        const std::function<bool(std::uint64_t, std::uint64_t)>& progress) {
  std::set<std::uint32_t> file_indices;
  for (const LayerSpec& layer : model.layers) {
    for (const ShardExtent& shard : layer.table.shards) {
      if (shard.data == nullptr && shard.row_count > 0) file_indices.insert(shard.file_index);
    }
  }
  std::uint64_t total = 0;
  for (const std::uint32_t file_index : file_indices) {
    if (file_index >= model.files.size()) {
      return error(StatusCode::invalid_argument, "an extent in file {} of {}", file_index,
                   model.files.size());
    }
    total += model.files[file_index].bytes;
  }
  std::uint64_t done = 0;
  for (const std::uint32_t file_index : file_indices) {
    PLE_TRY(write_sums(model.files[file_index], done, total, progress));
    done += model.files[file_index].bytes;
  }
  return {};
}

}  // namespace ple
