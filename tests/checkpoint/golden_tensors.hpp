#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "checkpoint/tensor_files.hpp"

namespace ple::test {

inline std::string golden_path(const std::string& name) {
  return std::string(PLE_TEST_DATA) + "/golden/" + name;
}

// The numbers of a tensor in a file of test vectors: I64, I32 or U8, widened.
inline std::vector<std::int64_t> golden_numbers(const std::string& file,
                                                const std::string& tensor) {
  const InputFile input = InputFile::open(golden_path(file)).value();
  const std::vector<TensorInfo> tensors = read_safetensors_header(input).value();
  for (const TensorInfo& info : tensors) {
    if (info.name != tensor) continue;
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes));
    if (!input.read(info.offset, bytes).is_ok()) break;
    const std::size_t width = dtype_bits(info.dtype) / 8;
    std::vector<std::int64_t> numbers(bytes.size() / width);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::int32_t narrow = 0;
      if (width == 8) std::memcpy(&numbers[i], &bytes[i * width], width);
      if (width == 4) std::memcpy(&narrow, &bytes[i * width], width);
      if (width == 1) narrow = static_cast<std::int32_t>(bytes[i]);
      if (width != 8) numbers[i] = narrow;
    }
    return numbers;
  }
  throw std::runtime_error("no tensor " + tensor + " in " + file);
}

}  // namespace ple::test
