#include "file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "command.hpp"

namespace pleiades::cli {
namespace {

// One call moves at most this much, whatever the system's own limit.
constexpr std::uint64_t kCallBytes = std::uint64_t{1} << 30;

}  // namespace

File File::open_readonly(const std::string& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) refuse("{}: {}", path, std::strerror(errno));
  return File(path, fd);
}

File File::create(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) refuse("{}: {}", path, std::strerror(errno));
  return File(path, fd);
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

std::uint64_t File::size() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) refuse("{}: {}", path_, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) refuse("{}: not a regular file", path_);
  return static_cast<std::uint64_t>(info.st_size);
}

void File::read_at(std::uint64_t offset, void* bytes, std::uint64_t count) const {
  auto* out = static_cast<std::byte*>(bytes);
  while (count > 0) {
    const ssize_t got = ::pread(fd_, out, std::min(count, kCallBytes), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse("{}: {}", path_, std::strerror(errno));
    if (got == 0) refuse("{}: ends at byte {}, {} bytes early", path_, offset, count);
    out += got;
    offset += static_cast<std::uint64_t>(got);
    count -= static_cast<std::uint64_t>(got);
  }
}

void File::write_at(std::uint64_t offset, const void* bytes, std::uint64_t count) const {
  const auto* in = static_cast<const std::byte*>(bytes);
  while (count > 0) {
    const ssize_t put = ::pwrite(fd_, in, std::min(count, kCallBytes), static_cast<off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) refuse("{}: {}", path_, std::strerror(errno));
    in += put;
    offset += static_cast<std::uint64_t>(put);
    count -= static_cast<std::uint64_t>(put);
  }
}

void File::resize(std::uint64_t bytes) const {
  const auto length = static_cast<off_t>(bytes);
  if (bytes > 0 && ::fallocate(fd_, 0, 0, length) == 0) return;
  if (errno != EOPNOTSUPP && bytes > 0) refuse("{}: {}", path_, std::strerror(errno));
  if (::ftruncate(fd_, length) != 0) refuse("{}: {}", path_, std::strerror(errno));
}

void File::sync() const {
  if (::fsync(fd_) != 0) refuse("{}: {}", path_, std::strerror(errno));
}

std::vector<std::byte> read_file(const std::string& path) {
  const File file = File::open_readonly(path);
  std::vector<std::byte> bytes(file.size());
  file.read_at(0, bytes.data(), bytes.size());
  return bytes;
}

void replace_file(const std::string& name, const void* bytes, std::uint64_t count) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const bool is_link = fs::is_symlink(fs::symlink_status(name, failure));
  const std::string path = is_link ? fs::canonical(name, failure).string() : name;
  const fs::file_status status = fs::status(path, failure);
  if ((is_link && path.empty()) || (fs::exists(status) && !fs::is_regular_file(status))) {
    refuse("{}: not a regular file", name);
  }
  const std::string fresh = path + ".partial-" + std::to_string(::getpid());
  {
    const File file = File::create(fresh);
    file.write_at(0, bytes, count);
  }
  if (::rename(fresh.c_str(), path.c_str()) != 0) {
    const int number = errno;
    ::unlink(fresh.c_str());
    refuse("{}: {}", path, std::strerror(number));
  }
}

}  // namespace pleiades::cli
