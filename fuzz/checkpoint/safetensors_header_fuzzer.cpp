// The first bytes of a safetensors file: the length, the header, and data that is all there.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "checkpoint/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  if (bytes < ple::kSafetensorsPrefixBytes) return 0;
  const auto file = std::as_bytes(std::span(data, bytes));
  const auto header_bytes = ple::safetensors_header_bytes(
      file.first<ple::kSafetensorsPrefixBytes>(), file.size(), "fuzz");
  if (!header_bytes.is_ok()) return 0;
  const std::string_view header(reinterpret_cast<const char*>(data) + ple::kSafetensorsPrefixBytes,
                                static_cast<std::size_t>(header_bytes.value()));
  const auto tensors = ple::parse_safetensors_header(header, file.size(), "fuzz");
  if (!tensors.is_ok()) return 0;
  // Accepted tensors cover the data exactly.
  std::uint64_t end = ple::kSafetensorsPrefixBytes + header.size();
  for (const ple::TensorInfo& tensor : tensors.value()) {
    if (tensor.offset != end) std::abort();
    end += tensor.bytes;
  }
  if (end != file.size()) std::abort();
  return 0;
}
