#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace ple::test {

// The JSON in a file below tests/data; throws (and so fails the test) where it cannot be read.
inline nlohmann::json json_file(const std::string& name) {
  const std::string path = std::string(PLE_TEST_DATA) + "/" + name;
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot open " + path);
  return nlohmann::json::parse(stream);
}

}  // namespace ple::test
