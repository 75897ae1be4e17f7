#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/dtype.hpp"

namespace ple {

// One tensor of a safetensors file.
struct TensorInfo {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  std::uint32_t file_index = 0;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

// The file starts with the header's length (u64), then the header, a JSON object, then the data.
inline constexpr std::uint64_t kSafetensorsPrefixBytes = 8;
inline constexpr std::uint64_t kSafetensorsHeaderBytesMax = 100'000'000;

// The header's length out of the first 8 bytes of a file of file_bytes; refused when it is above
// the bound or beyond the file. name stands for the file in messages, here and below.
Result<std::uint64_t> safetensors_header_bytes(
    std::span<const std::byte, kSafetensorsPrefixBytes> prefix, std::uint64_t file_bytes,
    const std::string& name);

// The tensors that header describes, by offset. Refused unless every tensor's bytes are those of
// its shape and type, and the tensors cover the data of the file without hole, overlap or rest.
Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header,
                                                         std::uint64_t file_bytes,
                                                         const std::string& name);

// The beginning of a file of these tensors, one behind the other: the header and the length before
// it, padded so that the data begins at a multiple of 8. Sets their offsets and bytes.
std::string place_safetensors(std::vector<TensorInfo>& tensors);

}  // namespace ple
