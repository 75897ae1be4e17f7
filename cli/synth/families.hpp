#pragma once

#include <cstdint>
#include <optional>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

#include "synth/plan.hpp"

namespace pleiades::cli {

// How the rows are stored.
enum class RowDtype : std::uint8_t { bf16, f16, f32, fp8, fp8_row, fp8_e8m0, int8, nvfp4 };

struct SynthOptions {
  std::string preset = "flash-next";
  std::optional<std::uint64_t> rows_base;  // each preset has its own default
  std::optional<std::uint64_t> shards;
  std::optional<std::uint32_t> files;
  std::optional<RowDtype> dtype;  // each preset has its own default
  std::uint64_t seed = 1;
};

// A preset makes a checkpoint in two steps: first its config, then, with the constants that the
// library derives from that, its tensors.
struct Preset {
  const char* name;
  const char* help;
  CheckpointPlan (*plan_config)(const SynthOptions&);
  void (*plan_tensors)(const SynthOptions&, const Model&, CheckpointPlan&);
};

const std::vector<Preset>& presets();

// Of bf16 rows: elements of about an eighth.
inline constexpr float kRowAmplitude = 0.25F;

// The number of a tensor's noise stream: `parameter` counts the tensors of a layer,
// `layer_position` the memory layers.
std::uint64_t stream_of(std::uint64_t seed, std::uint64_t layer_position, std::uint64_t parameter);

// A tensor of noise.
PlannedTensor noise_tensor(std::string name, std::vector<std::uint64_t> shape, const Noise& noise);

// Integers as the bytes of an I64 tensor.
PlannedTensor integers(std::string name, const std::int64_t* values, std::int32_t count);

// token_map.i32, the codes of an Engram model's token ids: id mod code_count.
CheckpointPlan::SmallFile made_up_token_map(std::uint64_t vocab_size, std::uint64_t code_count);

// Spreads tensors over the files in turn, as options ask or over default_count files; tensors from
// `begin` on. Refuses more files than tensors.
void interleave(const SynthOptions& options, std::uint32_t default_count, std::size_t begin,
                CheckpointPlan& plan);

// qwen4_exp: its memory layers, and a tiny model that is whole.
CheckpointPlan plan_flash_next_config(const SynthOptions& options);
void plan_qwen4_exp_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan);
CheckpointPlan plan_tiny_config(const SynthOptions& options);
void plan_tiny_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan);

// DeepSeek V4.1 Engram, and the Engram demo; their token map is made up too: id mod codes.
CheckpointPlan plan_engram_v41_config(const SynthOptions& options);
void plan_engram_v41_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan);
CheckpointPlan plan_engram_demo_config(const SynthOptions& options);
void plan_engram_demo_tensors(const SynthOptions& options, const Model& model,
                              CheckpointPlan& plan);

// LongCat and Gemma: tables at the model's input.
CheckpointPlan plan_longcat_lite_config(const SynthOptions& options);
CheckpointPlan plan_longcat_next_config(const SynthOptions& options);
void plan_longcat_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan);
CheckpointPlan plan_gemma_e2b_config(const SynthOptions& options);
void plan_gemma_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan);

// Refuses --shards where a family's public layout has none.
void refuse_unsharded(const SynthOptions& options);

}  // namespace pleiades::cli
