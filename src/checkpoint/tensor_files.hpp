#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/input_file.hpp"
#include "checkpoint/model_spec.hpp"
#include "checkpoint/safetensors.hpp"

namespace ple {

// The tensors of one file.
Result<std::vector<TensorInfo>> read_safetensors_header(const InputFile& file);

// The tensors of a directory's safetensors files. With an index (model.safetensors.index.json, or
// the only *.safetensors.index.json) they are those it lists, without one those of every
// *.safetensors file. Files stay open, so that constants and samples can be read.
class TensorFiles {
 public:
  static Result<TensorFiles> open(const std::string& directory);

  // Null where there is no such tensor.
  const TensorInfo* find(std::string_view name) const;
  // As find, but its absence is an error.
  Result<TensorInfo> require(std::string_view name) const;
  // All names that start with prefix, ascending.
  std::vector<std::string_view> names(std::string_view prefix) const;

  // The bytes of a small tensor, or the first out.size() of a large one.
  Status read(const TensorInfo& tensor, std::span<std::byte> out) const;

  std::vector<ModelFile> files() const;
  // Whether an index lists the tensors.
  bool has_index() const { return has_index_; }
  const std::string& directory() const { return directory_; }

 private:
  Status add_file(const std::string& name);
  Status add_index(const std::string& name);

  std::string directory_;
  bool has_index_ = false;
  std::vector<InputFile> files_;
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

// The files that an index names, and the file of each tensor. Refused: a file name that could leave
// the directory. name stands for the index in messages.
struct TensorIndex {
  std::vector<std::string> files;
  std::map<std::string, std::string, std::less<>> file_of;
};
Result<TensorIndex> parse_tensor_index(std::string_view json, const std::string& name);

// The text of an index, to be called model.safetensors.index.json; total_bytes: of the tensors.
std::string tensor_index_text(const TensorIndex& index, std::uint64_t total_bytes);

}  // namespace ple
