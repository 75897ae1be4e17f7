// Weights of DeepSeek V4.1 that the GPU's kernels do not multiply are refused by the name of their
// tensor; a CPU runs them.

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "support/golden_tensor.hpp"
#include "support/temp_directory.hpp"
#include "support/test_device.hpp"

namespace ple::test {
namespace {

constexpr const char* kModel = "/golden/engram_v41/tiny_hc4";

// The model with one byte of a tensor replaced.
std::string patched_model(const TempDirectory& directory, const std::string& tensor, std::size_t at,
                          char byte) {
  const std::string model = directory.path("model");
  std::filesystem::copy(std::string(PLE_TEST_DATA) + kModel, model);
  const std::string path = model + "/model.safetensors";
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  std::uint64_t header_bytes = 0;
  file.read(reinterpret_cast<char*>(&header_bytes), sizeof(header_bytes));
  std::string header(header_bytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header_bytes));
  const auto offset =
      nlohmann::json::parse(header).at(tensor).at("data_offsets").at(0).get<std::size_t>();
  file.seekp(static_cast<std::streamoff>(sizeof(header_bytes) + header_bytes + offset + at));
  file.put(byte);
  return model;
}

void expect_refused(const std::string& tensor, std::size_t at, char byte, const char* reason) {
  SCOPED_TRACE(tensor);
  const TempDirectory directory;
  const auto model = pleiades::Model::open(patched_model(directory, tensor, at, byte));
  EXPECT_NO_THROW(pleiades::Engine::open(model, {.device = "cpu"}));
  try {
    open_engine(model);
    ADD_FAILURE() << "not refused";
  } catch (const pleiades::Error& error) {
    EXPECT_EQ(error.status(), PLE_UNSUPPORTED);
    const std::string words = error.what();
    EXPECT_NE(words.find("tensor '" + tensor + "': " + reason), std::string::npos) << words;
  }
}

TEST(EngramWeights, ThatTheKernelsDoNotMultiplyAreRefused) {
  skip_without_device();
  if (IsSkipped()) return;
  expect_refused("layers.14.engram.wkv.scale", 7, static_cast<char>(135),
                 "a scale of code 135, on a GPU at most 134");
  expect_refused("layers.1.engram.wkv.weight", 192 * 3 + 5, static_cast<char>(0xFF),
                 "row 3 has a NaN");
}

}  // namespace
}  // namespace ple::test
