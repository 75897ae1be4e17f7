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

// The values of one tensor of a golden file below tests/data; throws where they cannot be read.
template <class T>
std::vector<T> golden_tensor(const std::string& file, const std::string& tensor) {
  const std::string path = std::string(PLE_TEST_DATA) + "/" + file;
  std::ifstream stream(path, std::ios::binary);
  const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)), {});
  std::uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) throw std::runtime_error("cannot read " + path);
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const char* header = bytes.data() + sizeof(header_bytes);
  const auto entry = nlohmann::json::parse(header, header + header_bytes).at(tensor);
  const std::uint64_t begin = entry.at("data_offsets").at(0);
  const std::uint64_t end = entry.at("data_offsets").at(1);
  std::vector<T> values((end - begin) / sizeof(T));
  std::memcpy(values.data(), header + header_bytes + begin, end - begin);
  return values;
}

}  // namespace ple::test
