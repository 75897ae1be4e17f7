#include "io/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "io/unique_fd.hpp"

namespace ple {

namespace {

constexpr std::string_view kPartial = ".partial-";  // and the process

// 0, or the errno of what failed.
int write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return ::fsync(fd) == 0 ? 0 : errno;
}

// What to replace: where links lead to, and no device, for which a file would be no replacement.
Result<std::string> find_target(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failure;
  const bool is_link = fs::is_symlink(fs::symlink_status(path, failure));
  const std::string target = is_link ? fs::canonical(path, failure).string() : path;
  const fs::file_status status = fs::status(target, failure);
  if ((is_link && target.empty()) || (fs::exists(status) && !fs::is_regular_file(status))) {
    return error(StatusCode::io_error, "file '{}' cannot be written: it is not a regular file",
                 path);
  }
  return target;
}

}  // namespace

Status replace_file(const std::string& name, std::span<const std::byte> bytes) {
  PLE_TRY_ASSIGN(const std::string path, find_target(name));
  const std::string partial = fmt::format("{}{}{}", path, kPartial, ::getpid());
  const UniqueFd fd(::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  int failure = fd.is_open() ? write_all(fd.get(), bytes) : errno;
  if (failure == 0 && std::rename(partial.c_str(), path.c_str()) != 0) failure = errno;
  if (failure == 0) return {};
  if (fd.is_open()) ::unlink(partial.c_str());
  return error(StatusCode::io_error, "file '{}' cannot be written: {}", path,
               std::generic_category().message(failure));
}

void remove_partial_files(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string beginning = fmt::format("{}{}", file.filename().string(), kPartial);
  std::error_code failure;
  std::filesystem::directory_iterator place(file.parent_path(), failure);
  for (; !failure && place != std::filesystem::directory_iterator(); place.increment(failure)) {
    std::error_code ignored;
    const bool is_partial = place->path().filename().string().starts_with(beginning);
    if (is_partial) std::filesystem::remove(place->path(), ignored);
  }
}

}  // namespace ple
