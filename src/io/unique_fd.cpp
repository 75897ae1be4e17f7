#include "io/unique_fd.hpp"

#include <unistd.h>

namespace ple {

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

}  // namespace ple
