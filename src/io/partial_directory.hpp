#pragma once

#include <string>

#include "base/status.hpp"
#include "io/unique_fd.hpp"

namespace ple {

// A directory in the making: everything is written into NAME.partial, which is renamed to NAME when
// it is whole. NAME.partial outlives the process, so that work can go on in it later: a journal in
// it says what is done, and goes when it is published. One process at a time has it open.
class PartialDirectory {
 public:
  // Refuses a NAME that exists, or a directory that another process has open. NAME may be empty, or
  // hold the journal, as a process leaves it that is killed while it publishes.
  static Result<PartialDirectory> open(std::string name, const std::string& journal_name);

  // NAME.partial, and NAME once it is published.
  const std::string& path() const { return partial_; }
  std::string file(const std::string& file_name) const { return partial_ + "/" + file_name; }
  std::string journal() const { return file(journal_name_); }

  // Brings the directory's entries to the disk, gives it its name and removes the journal.
  Status publish();
  // Removes it with all it holds; not once it is published.
  void remove();

 private:
  PartialDirectory(std::string name, std::string partial, std::string journal_name)
      : name_(std::move(name)),
        partial_(std::move(partial)),
        journal_name_(std::move(journal_name)) {}

  std::string name_;
  std::string partial_;
  std::string journal_name_;
  UniqueFd lock_;
};

}  // namespace ple
