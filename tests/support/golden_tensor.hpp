#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace ple::test {

// The values of one tensor of a golden file below tests/data, whose name for their type goes to
// dtype; throws where they cannot be read.
template <class T>
std::vector<T> golden_tensor(const std::string& file, const std::string& tensor,
                             std::string* dtype = nullptr) {
  const std::string path = std::string(PLE_TEST_DATA) + "/" + file;
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) throw std::runtime_error("cannot read " + path);
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const char* header = bytes.data() + sizeof(header_bytes);
  const auto entry = nlohmann::json::parse(header, header + header_bytes).at(tensor);
  if (dtype != nullptr) *dtype = entry.at("dtype");
  const std::uint64_t begin = entry.at("data_offsets").at(0);
  const std::uint64_t end = entry.at("data_offsets").at(1);
  std::vector<T> values((end - begin) / sizeof(T));
  std::memcpy(values.data(), header + header_bytes + begin, end - begin);
  return values;
}

// The numbers of a tensor of type F32 or BF16.
inline std::vector<float> golden_reals(const std::string& file, const std::string& tensor) {
  std::string dtype;
  const auto halves = golden_tensor<std::uint16_t>(file, tensor, &dtype);
  if (dtype == "F32") return golden_tensor<float>(file, tensor);
  if (dtype != "BF16") throw std::runtime_error(tensor + " is " + dtype);
  std::vector<float> values(halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const std::uint32_t bits = std::uint32_t{halves[i]} << 16;
    std::memcpy(&values[i], &bits, sizeof(bits));
  }
  return values;
}

}  // namespace ple::test
