#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/dtype.hpp"

namespace ple::test {

// A tensor to write.
struct FileTensor {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

// A tensor of zeros, or of one repeated byte.
inline FileTensor filled_tensor(std::string name, DType dtype, std::vector<std::int64_t> shape,
                                char byte = 0) {
  std::size_t bytes = dtype_bits(dtype) / 8;
  for (const std::int64_t extent : shape) bytes *= static_cast<std::size_t>(extent);
  return {std::move(name), dtype, std::move(shape), std::string(bytes, byte)};
}

template <class T>
FileTensor tensor_of(std::string name, DType dtype, std::vector<std::int64_t> shape,
                     const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return {std::move(name), dtype, std::move(shape), std::move(bytes)};
}

// The bytes of a file with this header and data, right or not.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  file += header;
  file += data;
  return file;
}

inline std::string safetensors_bytes(const std::vector<FileTensor>& tensors) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const FileTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  return safetensors_bytes(header.dump(), data);
}

}  // namespace ple::test
