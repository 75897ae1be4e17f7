#include <fmt/format.h>

#include <numeric>

#include "primes.hpp"
#include "synth/rows.hpp"

namespace pleiades::cli {
namespace {

constexpr std::uint64_t kVocabSize = 129280;
constexpr std::uint64_t kCodes = 99092;
constexpr std::uint64_t kOrders = 3;  // 2-, 3- and 4-grams
constexpr std::uint64_t kHeads = 8;
constexpr std::uint64_t kHeadDim = 256;
constexpr std::uint64_t kScaleBlock = 32;

// The rows of each layer: it takes the next primes, one for each of its columns.
std::vector<std::uint64_t> layer_rows(std::uint64_t base, std::size_t layer_count) {
  constexpr std::size_t kColumns = kOrders * kHeads;
  const std::vector<std::uint64_t> primes = primes_from(base, layer_count * kColumns);
  std::vector<std::uint64_t> rows;
  for (auto first = primes.begin(); first != primes.end(); first += kColumns) {
    rows.push_back(std::accumulate(first, first + kColumns, std::uint64_t{0}));
  }
  return rows;
}

}  // namespace

CheckpointPlan plan_engram_v41_config(const SynthOptions& options) {
  refuse_unsharded(options);
  const std::uint64_t base = options.rows_base.value_or(16'000'000);
  const std::vector<int> layers = {1, 14};
  CheckpointPlan plan;
  plan.config = {{"architectures", {"DeepseekV41ForCausalLM"}},
                 {"model_type", "deepseek_v41"},
                 {"image_token_id", 129264},
                 {"text_config",
                  {{"model_type", "deepseek_v41_text"},
                   {"vocab_size", kVocabSize},
                   {"hidden_size", 5120},
                   {"num_hidden_layers", 43},
                   {"hc_mult", 4},
                   {"rms_norm_eps", 1e-20},
                   {"engram_layer_ids", layers},
                   {"engram_num_embeddings", layer_rows(base, layers.size())},
                   {"engram_max_ngram_size", kOrders + 1},
                   {"engram_vocab_size", base},
                   {"engram_n_heads", kHeads},
                   {"engram_head_dim", kHeadDim},
                   {"engram_pad_token_id", 2},
                   {"engram_compressed_vocab_size", kCodes}}}};
  plan.small_files.push_back(made_up_token_map(kVocabSize, kCodes));
  return plan;
}

void plan_engram_v41_tensors(const SynthOptions& options, const Model& model,
                             CheckpointPlan& plan) {
  const std::vector<ple_layer_info> layers = model.layers();
  const auto add = [&](const ple_layer_info& layer, std::uint64_t position, const char* name,
                       std::vector<std::uint64_t> shape, Noise::Format format,
                       std::uint64_t parameter, float amplitude = 1.0F) {
    plan.tensors.push_back(noise_tensor(fmt::format("layers.{}.engram.{}", layer.layer_index, name),
                                        std::move(shape),
                                        {.format = format,
                                         .stream = stream_of(options.seed, position, parameter),
                                         .amplitude = amplitude}));
  };
  for (std::size_t position = 0; position < layers.size(); ++position) {
    const ple_layer_info& layer = layers[position];
    const auto hidden = static_cast<std::uint64_t>(layer.hidden);
    const auto streams = static_cast<std::uint64_t>(layer.stream_count);
    const std::uint64_t columns = static_cast<std::uint64_t>(layer.column_count) * kHeadDim;
    const std::uint64_t outputs = (streams + 1) * hidden;
    add(layer, position, "q_weight", {streams, hidden}, Noise::Format::bf16, 4);
    add(layer, position, "k_weight", {streams, hidden}, Noise::Format::bf16, 5);
    add(layer, position, "wkv.weight", {outputs, columns}, Noise::Format::e4m3, 2);
    add(layer, position, "wkv.scale", {outputs / kScaleBlock, columns / kScaleBlock},
        Noise::Format::e8m0, 3);
  }
  const std::size_t first_table = plan.tensors.size();
  for (std::size_t position = 0; position < layers.size(); ++position) {
    const RowDtype dtype = options.dtype.value_or(RowDtype::fp8_e8m0);
    const std::string table = fmt::format("layers.{}.engram.embed", layers[position].layer_index);
    add_rows(dtype,
             {.table = table,
              .row_count = layers[position].row_count,
              .dim = kHeadDim,
              .stream = stream_of(options.seed, position, 0),
              .scale_stream = stream_of(options.seed, position, 1)},
             plan);
    add_table_scale(dtype, table, plan);
  }
  interleave(options, 4, first_table, plan);
}

}  // namespace pleiades::cli
