#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "file.hpp"

namespace pleiades::cli {

// A safetensors file of some other engine's tensors. Refuses what is not strictly one, naming the
// file and the tensor.
class TensorFile {
 public:
  struct Tensor {
    std::string name;
    std::string dtype;
    std::vector<std::uint64_t> shape;
    std::uint64_t offset = 0;  // in the file
    std::uint64_t element_count = 0;
  };

  explicit TensorFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // Refuses a name that is not there by listing those that are.
  const Tensor& find(const std::string& name) const;

  // Elements [begin, begin + count) of an I64, I32, U8 or BOOL tensor.
  std::vector<std::int64_t> read_integers(const Tensor& tensor, std::uint64_t begin,
                                          std::uint64_t count) const;
  // Of an F64, F32, F16 or BF16 tensor.
  std::vector<double> read_reals(const Tensor& tensor, std::uint64_t begin,
                                 std::uint64_t count) const;

 private:
  File file_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace pleiades::cli
