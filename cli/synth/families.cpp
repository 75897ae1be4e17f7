#include "synth/families.hpp"

#include <cstring>

#include "command.hpp"

namespace pleiades::cli {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"flash-next",
       "released geometry of Qwen3.8-Flash-Next: 102.4 GB unless --rows-base says less",
       &plan_flash_next_config, &plan_qwen4_exp_tensors},
      {"tiny", "two small PLE layers of the same family", &plan_tiny_config,
       &plan_qwen4_exp_tensors},
  };
  return all;
}

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t layer_position, std::uint64_t parameter) {
  return 1000 * seed + 100 * layer_position + parameter;
}

PlannedTensor integers(std::string name, const std::int64_t* values, std::int32_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof *values;
  PlannedTensor tensor{.name = std::move(name),
                       .dtype = "I64",
                       .shape = {static_cast<std::uint64_t>(count)},
                       .noise = {},
                       .literal = std::vector<std::byte>(bytes)};
  std::memcpy(tensor.literal.data(), values, bytes);
  return tensor;
}

void interleave(const SynthOptions& options, std::uint32_t default_count, std::size_t begin,
                CheckpointPlan& plan) {
  const std::size_t count = plan.tensors.size() - begin;
  plan.file_count = options.files.value_or(
      static_cast<std::uint32_t>(std::min<std::size_t>(default_count, count)));
  if (plan.file_count > count) {
    refuse("--files {}: there are only {} table shards to spread over them", plan.file_count,
           count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    plan.tensors[begin + i].file_index = static_cast<std::uint32_t>(i % plan.file_count);
  }
}

}  // namespace pleiades::cli
