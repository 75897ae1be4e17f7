#include "checkpoint/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace ple {

Result<InputFile> InputFile::open(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    return error(StatusCode::invalid_argument, "file name '{}' holds a zero byte", path.c_str());
  }
  // Without O_NONBLOCK, opening a FIFO would wait for a writer.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    const StatusCode code = errno == ENOENT ? StatusCode::not_found : StatusCode::io_error;
    return error(code, "cannot open '{}': {}", path, std::strerror(errno));
  }
  InputFile file(path, 0, fd);
  struct stat info {};
  if (::fstat(fd, &info) != 0) {
    return error(StatusCode::io_error, "cannot stat '{}': {}", path, std::strerror(errno));
  }
  if (!S_ISREG(info.st_mode)) {
    return error(StatusCode::invalid_argument, "'{}' is not a regular file", path);
  }
  file.bytes_ = static_cast<std::uint64_t>(info.st_size);
  return file;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
}

Status InputFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(fd_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return error(StatusCode::io_error, "cannot read {} bytes at {} of '{}': {}", out.size(),
                   offset, path_, std::strerror(errno));
    }
    if (count == 0) {
      return error(StatusCode::corrupt, "'{}' ends at {}, {} bytes short", path_, offset,
                   out.size());
    }
    offset += static_cast<std::uint64_t>(count);
    out = out.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<std::string> InputFile::read_all(std::uint64_t bytes_max) const {
  if (bytes_ > bytes_max) {
    return error(StatusCode::corrupt,
                 "'{}' has {} bytes, more than the {} that such a file may have", path_, bytes_,
                 bytes_max);
  }
  std::string text(static_cast<std::size_t>(bytes_), '\0');
  PLE_TRY(read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace ple
