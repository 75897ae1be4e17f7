#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/status.hpp"
#include "io/unique_fd.hpp"

namespace ple {

// A file of known length that is written piece by piece, in any order, by any number of threads.
class OutputFile {
 public:
  // Opens a file, also one that is there already, and makes it exactly `bytes` long. Its blocks are
  // reserved where the file system can, so that a full disk shows before the work.
  static Result<OutputFile> open(const std::string& path, std::uint64_t bytes);

  Status write(std::uint64_t offset, std::span<const std::byte> bytes) const;
  // Brings what was written to the disk.
  Status sync() const;

  const std::string& path() const { return path_; }

 private:
  explicit OutputFile(std::string path) : path_(std::move(path)) {}
  Status resize(std::uint64_t bytes) const;

  std::string path_;
  UniqueFd fd_;
};

// Gives a file a second name, where one file system holds both; elsewhere copies it. What was at
// `path` before is replaced.
Status link_or_copy_file(const std::string& from, const std::string& path);
Status copy_file(const std::string& from, const std::string& path);

}  // namespace ple
