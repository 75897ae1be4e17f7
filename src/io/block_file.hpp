#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/status.hpp"
#include "io/unique_fd.hpp"

namespace ple {

// Whether reads go past the page cache.
enum class DirectIo : std::int32_t {
  automatic = 0,  // where the file system allows it
  off = 1,
};

// A regular file held open for reading blocks, and what it was when it was opened.
class BlockFile {
 public:
  // Direct I/O is kept only when the file system names its alignment (or this is an old kernel) and
  // a first real read succeeds; otherwise reads go through the page cache.
  static Result<BlockFile> open(const std::string& path, DirectIo direct);

  const std::string& path() const { return path_; }
  int fd() const { return fd_.get(); }
  std::uint64_t bytes() const { return identity_.bytes; }
  bool is_direct() const { return is_direct_; }

  // What offsets and sizes of reads must be multiples of, and the address of a buffer as well; a
  // power of two, at most a page.
  std::uint32_t alignment() const { return alignment_; }

  // ok while the path still names the file that was opened and neither its size nor its time of
  // modification is another; otherwise the sentence says which. Two system calls: it is asked once
  // for each file a batch touched, after the batch's last read, so that bytes which changed before
  // they were read are never taken for the table's.
  Status check_unchanged() const;

 private:
  struct Identity {
    dev_t device = 0;
    ino_t inode = 0;
    std::uint64_t bytes = 0;
    std::int64_t modified_ns = 0;
  };

  Status take_identity();
  bool use_direct();

  std::string path_;
  UniqueFd fd_;
  Identity identity_;
  bool is_direct_ = false;
  std::uint32_t alignment_ = kBufferedAlignment;

  // The page cache takes any offset; blocks of this size let neighbouring rows share a read.
  static constexpr std::uint32_t kBufferedAlignment = 512;
};

}  // namespace ple
