#include "io/output_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "base/error.hpp"

namespace ple {

namespace {

constexpr std::size_t kCopyBytes = std::size_t{1} << 20;

// What just failed on a file, by errno.
Status failure(const std::string& path, const char* what) {
  const int number = errno;
  return error(StatusCode::io_error, "file '{}' cannot be {}: {}", path, what,
               std::generic_category().message(number));
}

}  // namespace

Result<OutputFile> OutputFile::open(const std::string& path, std::uint64_t bytes) {
  OutputFile file(path);
  file.fd_ = UniqueFd(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  if (!file.fd_.is_open()) return failure(path, "created");
  PLE_TRY(file.resize(bytes));
  return file;
}

Status OutputFile::resize(std::uint64_t bytes) const {
  const auto length = static_cast<off_t>(bytes);
  if (::ftruncate(fd_.get(), length) != 0) return failure(path_, "made so long");
  if (length == 0 || ::fallocate(fd_.get(), 0, 0, length) == 0) return {};
  if (errno == EOPNOTSUPP) return {};
  return failure(path_, "given its room");
}

Status OutputFile::write(std::uint64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t count =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure(path_, "written");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
  return {};
}

Status OutputFile::sync() const {
  if (::fsync(fd_.get()) != 0) return failure(path_, "brought to the disk");
  return {};
}

Status link_or_copy_file(const std::string& from, const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return failure(path, "replaced");
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) == 0) return {};
  return copy_file(from, path);
}

Status copy_file(const std::string& from, const std::string& path) {
  const UniqueFd source(::open(from.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat info = {};
  if (!source.is_open() || ::fstat(source.get(), &info) != 0) return failure(from, "opened");
  PLE_TRY_ASSIGN(const OutputFile file,
                 OutputFile::open(path, static_cast<std::uint64_t>(info.st_size)));
  std::vector<std::byte> buffer(kCopyBytes);
  for (off_t offset = 0; offset < info.st_size;) {
    const ssize_t count = ::pread(source.get(), buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return failure(from, "read");
    if (count == 0) return error(StatusCode::corrupt, "file '{}' became shorter", from);
    PLE_TRY(file.write(static_cast<std::uint64_t>(offset),
                       std::span(buffer).first(static_cast<std::size_t>(count))));
    offset += count;
  }
  return file.sync();
}

}  // namespace ple
