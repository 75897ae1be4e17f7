#include "io/block_reader.hpp"

#include <algorithm>
#include <bit>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace ple {

namespace {

constexpr std::uint32_t kUringDepth = 128;
// Of one thread, where the depth is ours to choose: what memlock allows by default.
constexpr std::uint32_t kBufferBytesMax = std::uint32_t{8} << 20;
constexpr std::uint32_t kPreadDepth = 64;
constexpr std::uint32_t kDepthMax = 4096;
constexpr std::uint32_t kThreadsMax = 256;
constexpr std::uint32_t kBlockBytesMax = std::uint32_t{1} << 20;

std::uint32_t or_default(std::uint32_t value, std::uint32_t default_value) {
  return value == 0 ? default_value : value;
}

std::uint32_t uring_depth(std::uint32_t read_bytes_max) {
  return std::clamp(kBufferBytesMax / read_bytes_max, std::uint32_t{1}, kUringDepth);
}

Status check(const BlockReaderOptions& options) {
  if (options.depth > kDepthMax || options.thread_count > kThreadsMax) {
    return error(StatusCode::invalid_argument,
                 "a reader of {} threads and depth {} is beyond {} threads and depth {}",
                 options.thread_count, options.depth, kThreadsMax, kDepthMax);
  }
  if (options.block_bytes != 0 &&
      (!std::has_single_bit(options.block_bytes) || options.block_bytes > kBlockBytesMax)) {
    return error(StatusCode::invalid_argument,
                 "block size {} is not a power of two of at most {} bytes", options.block_bytes,
                 kBlockBytesMax);
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<BlockReader>> BlockReader::open(std::vector<BlockFile> files,
                                                       const BlockReaderOptions& options) {
  PLE_TRY(check(options));
  if (files.empty()) return error(StatusCode::invalid_argument, "a reader of no files");
  std::unique_ptr<BlockReader> reader(new BlockReader(std::move(files), options));
  if (options.backend != IoBackend::pread) {
    const Status started = reader->start(options, IoBackend::uring);
    if (started.is_ok()) return reader;
    if (options.backend == IoBackend::uring || !reader->workers_.empty()) return started;
  }
  PLE_TRY(reader->start(options, IoBackend::pread));
  return reader;
}

BlockReader::BlockReader(std::vector<BlockFile> files, const BlockReaderOptions& options)
    : files_(std::move(files)), block_bytes_(options.block_bytes) {
  info_.is_direct = true;
  for (std::uint32_t file_index = 0; file_index < files_.size(); ++file_index) {
    info_.is_direct &= files_[file_index].is_direct();
    info_.block_bytes = std::max(info_.block_bytes, block_bytes(file_index));
  }
  constexpr std::uint32_t kPageBytes = AlignedBuffer::kPageBytes;
  const std::uint32_t least = std::max(options.read_bytes_max, info_.block_bytes);
  read_bytes_max_ = (least + kPageBytes - 1) / kPageBytes * kPageBytes;
}

BlockReader::~BlockReader() {
  list_.stop(error(StatusCode::wrong_state, "the reader of '{}' was closed", files_[0].path()));
  workers_.clear();
}

std::uint32_t BlockReader::block_bytes(std::uint32_t file_index) const {
  return std::max(block_bytes_, files_[file_index].alignment());
}

Status BlockReader::start(const BlockReaderOptions& options, IoBackend backend) {
  const bool is_uring = backend == IoBackend::uring;
  const std::uint32_t worker_depth =
      is_uring ? or_default(options.depth, uring_depth(read_bytes_max_)) : 1;
  const std::uint32_t worker_count =
      is_uring ? or_default(options.thread_count, 1)
               : std::min(or_default(options.depth, kPreadDepth), kThreadsMax);
  list_.reserve(worker_count);
  for (std::uint32_t i = 0; i < worker_count; ++i) {
    auto worker = std::make_unique<ReadWorker>(
        files_, list_, metrics_,
        ReadWorker::Options{backend, worker_depth, read_bytes_max_, options.wrap_queue});
    PLE_TRY_ASSIGN(info_.features, worker->start());
    workers_.push_back(std::move(worker));
  }
  info_.thread_count = worker_count;
  info_.depth = worker_count * worker_depth;
  return {};
}

}  // namespace ple
