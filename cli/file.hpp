#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pleiades::cli {

// Owns one open file. Every failure is an InputError that names the file and the system's word.
class File {
 public:
  static File open_readonly(const std::string& path);
  // Fails when the file exists.
  static File create(const std::string& path);

  File(File&& other) noexcept : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&&) = delete;
  ~File();

  std::uint64_t size() const;
  void read_at(std::uint64_t offset, void* bytes, std::uint64_t count) const;
  void write_at(std::uint64_t offset, const void* bytes, std::uint64_t count) const;
  // Reserves its blocks, where the file system can, so that a full disk shows before the work.
  void resize(std::uint64_t bytes) const;
  void sync() const;

  const std::string& path() const { return path_; }

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  int fd_;
};

std::vector<std::byte> read_file(const std::string& path);

// Creates or replaces a file, or the one that a link names; refuses what is no file.
void replace_file(const std::string& path, const void* bytes, std::uint64_t count);

}  // namespace pleiades::cli
