#include "synth/families.hpp"

#include <cstring>

#include "command.hpp"

namespace pleiades::cli {

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"flash-next",
       "released geometry of Qwen3.8-Flash-Next: 102.4 GB unless --rows-base says less",
       &plan_flash_next_config, &plan_qwen4_exp_tensors},
      {"tiny", "a whole model of the same family, which transformers runs: two small PLE layers",
       &plan_tiny_config, &plan_tiny_tensors},
      {"engram-v41", "DeepSeek V4.1 Engram, two layers: 203 GB", &plan_engram_v41_config,
       &plan_engram_v41_tensors},
      {"engram-demo", "the Engram demo, two layers: 2.7 GB", &plan_engram_demo_config,
       &plan_engram_demo_tensors},
      {"longcat-lite", "LongCat-Flash-Lite: 63 GB", &plan_longcat_lite_config,
       &plan_longcat_tensors},
      {"longcat-next", "LongCat-Next: 65 GB", &plan_longcat_next_config, &plan_longcat_tensors},
      {"gemma-e2b", "Gemma 3n E2B: 4.0 GB", &plan_gemma_e2b_config, &plan_gemma_tensors},
  };
  return all;
}

std::uint64_t stream_of(std::uint64_t seed, std::uint64_t layer_position, std::uint64_t parameter) {
  return 1000 * seed + 100 * layer_position + parameter;
}

PlannedTensor noise_tensor(std::string name, std::vector<std::uint64_t> shape, const Noise& noise) {
  return {.name = std::move(name),
          .dtype = dtype_of(noise.format),
          .shape = std::move(shape),
          .noise = noise,
          .literal = {}};
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

CheckpointPlan::SmallFile made_up_token_map(std::uint64_t vocab_size, std::uint64_t code_count) {
  std::vector<std::int32_t> codes(vocab_size);
  for (std::uint64_t id = 0; id < vocab_size; ++id) {
    codes[id] = static_cast<std::int32_t>(id % code_count);
  }
  CheckpointPlan::SmallFile file{"token_map.i32",
                                 std::vector<std::byte>(codes.size() * sizeof codes[0])};
  std::memcpy(file.bytes.data(), codes.data(), file.bytes.size());
  return file;
}

void refuse_unsharded(const SynthOptions& options) {
  if (options.shards) refuse("--shards: the tables of {} are not cut into shards", options.preset);
}

void interleave(const SynthOptions& options, std::uint32_t default_count, std::size_t begin,
                CheckpointPlan& plan) {
  const std::size_t count = plan.tensors.size() - begin;
  plan.file_count = options.files.value_or(
      static_cast<std::uint32_t>(std::min<std::size_t>(default_count, count)));
  if (plan.file_count > count) {
    refuse("--files {}: there are only {} table tensors to spread over them", plan.file_count,
           count);
  }
  for (std::size_t i = 0; i < count; ++i) {
    plan.tensors[begin + i].file_index = static_cast<std::uint32_t>(i % plan.file_count);
  }
}

}  // namespace pleiades::cli
