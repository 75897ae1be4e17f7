#include "io/partial_directory.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

#include "base/error.hpp"

namespace ple {

namespace fs = std::filesystem;

namespace {

Status exists_already(const std::string& name) {
  return error(StatusCode::invalid_argument,
               "'{}' exists already; choose another name, or remove it first", name);
}

}  // namespace

Result<PartialDirectory> PartialDirectory::open(std::string name, const std::string& journal_name) {
  while (name.size() > 1 && name.back() == '/') name.pop_back();
  if (name.empty()) return error(StatusCode::invalid_argument, "a directory's name is empty");
  std::error_code failure;
  const fs::file_status status = fs::symlink_status(name, failure);
  const bool is_published = fs::exists(name + "/" + journal_name, failure);
  if (fs::exists(status) && !is_published &&
      !(fs::is_directory(status) && fs::is_empty(name, failure))) {
    return exists_already(name);
  }
  PartialDirectory directory(name, is_published ? name : name + ".partial", journal_name);
  fs::create_directories(directory.partial_, failure);
  directory.lock_ =
      UniqueFd(::open(directory.partial_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (failure || !directory.lock_.is_open()) {
    return error(StatusCode::io_error, "directory '{}' cannot be made: {}", directory.partial_,
                 failure ? failure.message() : std::generic_category().message(errno));
  }
  if (::flock(directory.lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    return error(StatusCode::wrong_state, "another process is writing '{}'", directory.partial_);
  }
  // Who published it may have been alive, and removed the journal meanwhile.
  if (is_published && !fs::exists(directory.journal(), failure)) return exists_already(name);
  return directory;
}

Status PartialDirectory::publish() {
  std::error_code failure;
  if (::fsync(lock_.get()) != 0) failure.assign(errno, std::generic_category());
  if (!failure) fs::rename(partial_, name_, failure);
  if (failure) {
    return error(StatusCode::io_error, "'{}' cannot be made of '{}': {}", name_, partial_,
                 failure.message());
  }
  partial_ = name_;
  const fs::path parent = fs::path(name_).parent_path();
  const UniqueFd above(
      ::open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!above.is_open() || ::fsync(above.get()) != 0) {
    return error(StatusCode::io_error, "'{}' is whole, but not yet on the disk: {}", name_,
                 std::generic_category().message(errno));
  }
  // Last: NAME.partial without its journal would be nobody's.
  fs::remove(journal(), failure);
  return {};
}

void PartialDirectory::remove() {
  if (partial_ == name_) return;
  std::error_code ignored;
  fs::remove_all(partial_, ignored);
}

}  // namespace ple
