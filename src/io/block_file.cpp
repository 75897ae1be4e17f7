#include "io/block_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace ple {

namespace {

std::int64_t modified_ns(const struct stat& info) {
  return info.st_mtim.tv_sec * std::int64_t{1'000'000'000} + info.st_mtim.tv_nsec;
}

int open_retrying(const std::string& path, int flags) {
  int fd = -1;
  do {
    fd = ::open(path.c_str(), flags);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

// The alignment that direct reads of fd need; 0 when the file system refuses them.
std::uint32_t direct_alignment(int fd) {
  struct statx info = {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &info) != 0 ||
      (info.stx_mask & STATX_DIOALIGN) == 0) {
    return AlignedBuffer::kPageBytes;  // not said (before Linux 6.1): a page suits all of them
  }
  const std::uint32_t alignment = std::max(info.stx_dio_mem_align, info.stx_dio_offset_align);
  return info.stx_dio_offset_align == 0 || alignment > AlignedBuffer::kPageBytes ? 0 : alignment;
}

}  // namespace

Result<BlockFile> BlockFile::open(const std::string& path, DirectIo direct) {
  BlockFile file;
  file.path_ = path;
  struct stat info = {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return error(StatusCode::invalid_argument, "file '{}' is not a regular file", path);
  }
  if (direct == DirectIo::automatic && file.use_direct()) {
    PLE_TRY(file.take_identity());
    return file;
  }
  file.fd_ = UniqueFd(open_retrying(path, O_RDONLY | O_CLOEXEC));
  if (!file.fd_.is_open()) {
    return error(errno == ENOENT ? StatusCode::not_found : StatusCode::io_error,
                 "file '{}': cannot be opened: {}", path, std::strerror(errno));
  }
  PLE_TRY(file.take_identity());
  ::posix_fadvise(file.fd_.get(), 0, 0, POSIX_FADV_RANDOM);
  return file;
}

bool BlockFile::use_direct() {
  UniqueFd fd(open_retrying(path_, O_RDONLY | O_CLOEXEC | O_DIRECT));
  if (!fd.is_open()) return false;
  const std::uint32_t alignment = direct_alignment(fd.get());
  if (alignment == 0) return false;
  Result<AlignedBuffer> block = AlignedBuffer::allocate(alignment);
  if (!block.is_ok() || ::pread(fd.get(), block.value().data(), alignment, 0) < 0) return false;
  fd_ = std::move(fd);
  is_direct_ = true;
  alignment_ = alignment;
  return true;
}

Status BlockFile::take_identity() {
  struct stat info = {};
  if (::fstat(fd_.get(), &info) != 0) {
    return error(StatusCode::io_error, "file '{}': cannot be examined: {}", path_,
                 std::strerror(errno));
  }
  identity_ = {info.st_dev, info.st_ino, static_cast<std::uint64_t>(info.st_size),
               modified_ns(info)};
  return {};
}

Status BlockFile::check_unchanged() const {
  struct stat held = {};
  struct stat named = {};
  if (::fstat(fd_.get(), &held) != 0) {
    return error(StatusCode::io_error, "file '{}': cannot be examined: {}", path_,
                 std::strerror(errno));
  }
  if (::stat(path_.c_str(), &named) != 0) {
    return error(StatusCode::io_error, "file '{}' vanished while it was open: {}", path_,
                 std::strerror(errno));
  }
  if (named.st_dev != identity_.device || named.st_ino != identity_.inode) {
    return error(StatusCode::io_error,
                 "file '{}' was replaced while it was open: inode {} became {}", path_,
                 identity_.inode, named.st_ino);
  }
  if (static_cast<std::uint64_t>(held.st_size) != identity_.bytes) {
    return error(StatusCode::io_error, "file '{}' changed while it was open: {} bytes became {}",
                 path_, identity_.bytes, held.st_size);
  }
  if (modified_ns(held) != identity_.modified_ns) {
    return error(StatusCode::io_error,
                 "file '{}' was written to while it was open: it is of the same {} bytes, but was "
                 "modified since",
                 path_, identity_.bytes);
  }
  return {};
}

}  // namespace ple
