#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "synth/noise.hpp"

namespace pleiades::cli {

// One tensor of a checkpoint to be written: noise, or literal bytes where these are not empty.
struct PlannedTensor {
  std::string name;
  std::string dtype;                 // as safetensors spells it
  std::vector<std::uint64_t> shape;  // rows first; the rest of it is one row
  std::uint32_t file_index = 0;
  Noise noise;
  std::uint64_t row_begin = 0;  // of the noise: a shard's first row
  std::vector<std::byte> literal;

  std::uint64_t row_count() const;
  std::uint64_t row_elements() const;
  std::uint64_t bytes() const;
};

// A checkpoint to be written: its config, its tensors in the order in which they lie in their
// files, and small files beside them.
struct CheckpointPlan {
  struct SmallFile {
    std::string name;
    std::vector<std::byte> bytes;
  };

  nlohmann::ordered_json config;
  std::vector<PlannedTensor> tensors;
  std::vector<SmallFile> small_files;
  std::uint32_t file_count = 1;

  std::uint64_t bytes() const;
};

}  // namespace pleiades::cli
