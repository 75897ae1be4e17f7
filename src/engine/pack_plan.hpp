#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "checkpoint/tensor_files.hpp"
#include "engine/pack.hpp"

namespace ple {

// A tensor that is taken over as it is.
struct PackCopy {
  std::uint32_t source_file = 0;  // of ModelSpec::files
  std::uint64_t source_offset = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// A file to be written.
struct PackFile {
  std::string name;    // below the directory
  std::string header;  // its first bytes
  std::uint64_t bytes = 0;
  std::vector<PackCopy> copies;
};

// Where a table's rows go. Places are files of the plan.
struct PackTable {
  struct Scale {
    std::uint32_t file_index = 0;
    std::uint64_t offset = 0;
  };

  RowEncoding encoding;  // scale: still to be found where the format has one and codes are new
  bool keeps_codes = false;
  std::vector<std::uint32_t> part_bytes;
  std::vector<ShardExtent> shards;  // as TableSpec has them
  std::vector<Scale> scales;        // where encoding.scale is written
};

struct PackPlan {
  std::vector<PackFile> files;
  std::vector<PackTable> tables;         // by layer
  std::vector<std::string> linked;       // names of files that stay as they are
  std::vector<std::string> small_files;  // names of files beside them
  std::string index;                     // its text; empty where the checkpoint has none
  std::uint64_t identity = 0;            // of the source as it is now, and of the request
};

// Refuses a format that the rows cannot have, and a request that would change nothing.
Result<PackPlan> plan_pack(const ModelSpec& model, const TensorFiles& files,
                           const PackRequest& request);

}  // namespace ple
