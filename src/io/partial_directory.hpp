#pragma once

#include <string>

#include "base/status.hpp"
#include "io/unique_fd.hpp"

namespace ple {

// A directory in the making: everything is written into NAME.partial, which is renamed to NAME when
// it is whole. NAME.partial outlives the process, so that work can go on in it later; one process
// at a time has it open.
class PartialDirectory {
 public:
  // Refuses a NAME that exists (an empty directory may), or a NAME.partial that another process has
  // open.
  static Result<PartialDirectory> open(std::string name);

  // NAME.partial, and NAME once it is published.
  const std::string& path() const { return partial_; }
  std::string file(const std::string& file_name) const { return partial_ + "/" + file_name; }

  // Brings the directory's entries to the disk and gives it its name.
  Status publish();
  // Removes it with all it holds.
  void remove();

 private:
  PartialDirectory(std::string name, std::string partial)
      : name_(std::move(name)), partial_(std::move(partial)) {}

  std::string name_;
  std::string partial_;
  UniqueFd lock_;
};

}  // namespace ple
