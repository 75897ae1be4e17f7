// A model.safetensors.index.json: no accepted file name leaves the directory.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "checkpoint/tensor_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const auto index = ple::parse_tensor_index(text, "fuzz");
  if (!index.is_ok()) return 0;
  for (const auto& file : index.value().files) {
    const auto path = std::filesystem::path("/models/m") / file;
    if (!path.lexically_normal().string().starts_with("/models/m/")) std::abort();
  }
  return 0;
}
