#include <fmt/format.h>

#include "synth/families.hpp"

namespace pleiades::cli {
namespace {

// The parts of a tiny model whose sizes its config gives under other names or as products.
constexpr std::uint64_t kHidden = 64;
constexpr std::uint64_t kStreams = 4;
constexpr std::uint64_t kChannels = kStreams * kHidden;
constexpr std::uint64_t kExpertDim = 32;
constexpr std::uint64_t kExperts = 4;
constexpr std::uint64_t kMixRank = 16;
constexpr std::uint64_t kHeadDim = 32;
constexpr std::uint64_t kHeads = 4;
constexpr std::uint64_t kKeyHeads = 2;
constexpr std::uint64_t kIndexHeads = 3;  // two of queries, one of keys
constexpr std::uint64_t kLinearHeadDim = 16;
constexpr std::uint64_t kLinearHeads = 4;
constexpr std::uint64_t kLinearKeyHeads = 2;
constexpr std::uint64_t kLinearTaps = 4;

// Their noise streams follow those of the memory layers, in the order in which they are added.
constexpr std::uint64_t kRestPosition = 5;

class Rest {
 public:
  Rest(const SynthOptions& options, CheckpointPlan& plan) : options_(options), plan_(plan) {}

  void add(const std::string& name, std::vector<std::uint64_t> shape, float amplitude = 0.14F) {
    plan_.tensors.push_back(noise_tensor(
        name, std::move(shape),
        {.stream = stream_of(options_.seed, kRestPosition, count_++), .amplitude = amplitude}));
  }
  void add_norm(const std::string& name, std::uint64_t dim) { add(name, {dim}, 0.35F); }

  void add_mixer(const std::string& prefix) {
    add_norm(prefix + "hc_norm.weight", kChannels);
    add(prefix + "input_mix_weight_down.weight", {kMixRank, kChannels});
    add(prefix + "input_mix_weight_up.weight", {kChannels, kMixRank});
  }

  void add_linear_attention(const std::string& prefix) {
    constexpr std::uint64_t kValueDim = kLinearHeads * kLinearHeadDim;
    constexpr std::uint64_t kQueryKeyValueDim = 2 * kLinearKeyHeads * kLinearHeadDim + kValueDim;
    add(prefix + "A_log", {kLinearHeads}, 1.0F);
    add(prefix + "dt_bias", {kLinearHeads}, 1.0F);
    add(prefix + "conv1d.weight", {kQueryKeyValueDim, 1, kLinearTaps}, 0.5F);
    add(prefix + "in_proj_a.weight", {kLinearHeads, kHidden});
    add(prefix + "in_proj_b.weight", {kLinearHeads, kHidden});
    add(prefix + "in_proj_qkv.weight", {kQueryKeyValueDim, kHidden});
    add(prefix + "in_proj_z.weight", {kValueDim, kHidden});
    add_norm(prefix + "norm.weight", kLinearHeadDim);
    add(prefix + "out_proj.weight", {kHidden, kValueDim});
  }

  void add_sparse_attention(const std::string& prefix) {
    add(prefix + "indexer.index_qk_proj.weight", {kIndexHeads * kHeadDim, kHidden});
    add_norm(prefix + "indexer.q_layernorm.weight", kHeadDim);
    add_norm(prefix + "indexer.k_layernorm.weight", kHeadDim);
    add(prefix + "q_proj.weight", {2 * kHeads * kHeadDim, kHidden});  // and the gates
    add(prefix + "k_proj.weight", {kKeyHeads * kHeadDim, kHidden});
    add(prefix + "v_proj.weight", {kKeyHeads * kHeadDim, kHidden});
    add(prefix + "o_proj.weight", {kHidden, kHeads * kHeadDim});
    add_norm(prefix + "q_norm.weight", kHeadDim);
    add_norm(prefix + "k_norm.weight", kHeadDim);
  }

  void add_expert(const std::string& prefix) {
    add(prefix + "gate_proj.weight", {kExpertDim, kHidden});
    add(prefix + "up_proj.weight", {kExpertDim, kHidden});
    add(prefix + "down_proj.weight", {kHidden, kExpertDim});
  }

  void add_layer(const std::string& prefix, bool is_linear) {
    for (const char* block : {"attn", "mlp"}) {
      const std::string connection = fmt::format("{}{}_hyper_connection.", prefix, block);
      add_mixer(connection);
      add(connection + "block_inject_weight.weight", {kStreams, kChannels});
    }
    if (is_linear) {
      add_linear_attention(prefix + "linear_attn.");
    } else {
      add_sparse_attention(prefix + "self_attn.");
    }
    add(prefix + "mlp.gate.weight", {kExperts, kHidden});
    for (std::uint64_t e = 0; e < kExperts; ++e) {
      add_expert(fmt::format("{}mlp.experts.{}.", prefix, e));
    }
    add_expert(prefix + "mlp.shared_expert.");
    add(prefix + "mlp.shared_expert_gate.weight", {1, kHidden});
  }

 private:
  const SynthOptions& options_;
  CheckpointPlan& plan_;
  std::uint64_t count_ = 0;
};

}  // namespace

CheckpointPlan plan_tiny_config(const SynthOptions& options) {
  CheckpointPlan plan;
  plan.config = {
      {"architectures", {"Qwen4ExpForCausalLM"}},
      {"model_type", "qwen4_exp_text"},
      {"dtype", "bfloat16"},
      {"vocab_size", 512},
      {"hidden_size", kHidden},
      {"num_hidden_layers", 4},
      {"hc_count", kStreams},
      {"hc_lowrank", kMixRank},
      {"ple_layer_ids", {1, 3}},
      {"ple_embed_dim", 64},
      {"ple_conv_kernel_size", 4},
      {"ngram_size", 3},
      {"heads_per_ngram", 8},
      {"ngram_vocab_size_base", options.rows_base.value_or(2000)},
      {"make_ngram_vocab_size_divisible_by", 128},
      {"split_ngram_parts", options.shards.value_or(4)},
      {"eos_token_id", 7},
      {"seed", 1234},
      {"rms_norm_eps", 1e-6},
      {"layer_types",
       {"linear_attention", "linear_attention", "linear_attention", "qwen_sparse_attention"}},
      {"linear_conv_kernel_dim", kLinearTaps},
      {"linear_key_head_dim", kLinearHeadDim},
      {"linear_value_head_dim", kLinearHeadDim},
      {"linear_num_key_heads", kLinearKeyHeads},
      {"linear_num_value_heads", kLinearHeads},
      {"head_dim", kHeadDim},
      {"num_attention_heads", kHeads},
      {"num_key_value_heads", kKeyHeads},
      {"rope_parameters",
       {{"rope_type", "default"},
        {"rope_theta", 10000.0},
        {"partial_rotary_factor", 0.25},
        {"mrope_interleaved", true},
        {"mrope_section", {1, 1, 2}}}},
      {"indexer_budget", 64},
      {"indexer_compress_ratio", 4},
      {"indexer_head_dim", kHeadDim},
      {"indexer_kv_heads", 1},
      {"indexer_n_heads", kIndexHeads - 1},
      {"moe_intermediate_size", kExpertDim},
      {"shared_expert_intermediate_size", kExpertDim},
      {"num_experts", kExperts},
      {"num_experts_per_tok", 2},
      {"tie_word_embeddings", false}};
  if (options.dtype == RowDtype::fp8) plan.config["ple_embedding_dtype"] = "float8_e4m3fn";
  return plan;
}

void plan_tiny_tensors(const SynthOptions& options, const Model& model, CheckpointPlan& plan) {
  Rest rest(options, plan);
  rest.add("model.embed_tokens.weight", {plan.config["vocab_size"], kHidden});
  const nlohmann::ordered_json& types = plan.config["layer_types"];
  for (std::size_t l = 0; l < types.size(); ++l) {
    rest.add_layer(fmt::format("model.layers.{}.", l), types[l] == "linear_attention");
  }
  rest.add_mixer("model.hyper_connection_mixer.");
  rest.add("lm_head.weight", {plan.config["vocab_size"], kHidden});
  plan_qwen4_exp_tensors(options, model, plan);
}

}  // namespace pleiades::cli
