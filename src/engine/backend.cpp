#include "engine/backend.hpp"

#include <charconv>

#include "base/error.hpp"

namespace ple {

std::int32_t carried_window(const LayerSpec& layer) {
  return std::visit(
      [](const auto& parts) -> std::int32_t {
        if constexpr (requires { parts.tap_count; }) {
          return (parts.tap_count - 1) * parts.dilation;
        } else {
          return 0;
        }
      },
      layer.parts);
}

Result<std::unique_ptr<Backend>> make_backend(const EngineOptions& options) {
  const std::string& device = options.device;
  if (device == "cpu") return make_cpu_backend(options.thread_count);
  if (device == "cuda") return make_cuda_backend(0, options.slot_place, options.thread_count);
  constexpr std::string_view kPrefix = "cuda:";
  if (device.starts_with(kPrefix)) {
    const char* const end = device.data() + device.size();
    std::int32_t index = -1;
    const auto [parsed, failure] = std::from_chars(device.data() + kPrefix.size(), end, index);
    if (failure == std::errc() && parsed == end && index >= 0) {
      return make_cuda_backend(index, options.slot_place, options.thread_count);
    }
  }
  return error(StatusCode::invalid_argument, "device '{}': neither cpu, cuda nor cuda:N", device);
}

}  // namespace ple
