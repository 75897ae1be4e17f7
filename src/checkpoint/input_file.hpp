#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/status.hpp"

namespace ple {

// A regular file opened for reading, for headers and small tensors. Closed by the destructor.
class InputFile {
 public:
  static Result<InputFile> open(const std::string& path);

  InputFile(InputFile&& other) noexcept
      : path_(std::move(other.path_)), bytes_(other.bytes_), fd_(std::exchange(other.fd_, -1)) {}
  InputFile& operator=(InputFile&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(bytes_, other.bytes_);
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~InputFile();

  // Fills out from offset on; a file that ends before is an error.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;
  // The whole file as text; refused when it is longer than bytes_max.
  Result<std::string> read_all(std::uint64_t bytes_max) const;

  const std::string& path() const { return path_; }
  // The file's size when it was opened.
  std::uint64_t bytes() const { return bytes_; }

 private:
  InputFile(std::string path, std::uint64_t bytes, int fd)
      : path_(std::move(path)), bytes_(bytes), fd_(fd) {}

  std::string path_;
  std::uint64_t bytes_ = 0;
  int fd_ = -1;
};

}  // namespace ple
