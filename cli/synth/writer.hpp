#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "synth/plan.hpp"

namespace pleiades::cli {

// A directory that appears whole or not at all: everything is written into NAME.partial-PID beside
// it, which has no config.json and so opens as nothing, and is renamed at the end.
class PartialDirectory {
 public:
  // Refuses a path that exists (an empty directory may).
  explicit PartialDirectory(std::string path);
  // Removes what was written unless publish() succeeded.
  ~PartialDirectory();
  PartialDirectory(const PartialDirectory&) = delete;
  PartialDirectory& operator=(const PartialDirectory&) = delete;

  std::string file(const std::string& name) const { return partial_ + "/" + name; }
  std::uint64_t free_bytes() const;

  // Names the draft config.json, and the directory by its final path.
  void publish(const std::string& draft_config);

 private:
  std::string path_;
  std::string partial_;
  bool is_published_ = false;
};

// Writes a file and brings it to the disk.
void write_file(const std::string& path, const void* bytes, std::uint64_t count);

// Writes the safetensors files of a plan, and their index where they are several, with
// thread_count threads and 8 MiB of memory for each. progress(done, total bytes) is called from the
// calling thread; false stops the work, and write_tensors returns false.
bool write_tensors(const CheckpointPlan& plan, const PartialDirectory& directory,
                   std::uint32_t thread_count,
                   const std::function<bool(std::uint64_t, std::uint64_t)>& progress);

}  // namespace pleiades::cli
