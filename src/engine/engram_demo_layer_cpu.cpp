#include "engine/layers_cpu.hpp"
#include "engine/packed_weights_cpu.hpp"
#include "engine/ple_layer_cpu.hpp"
#include "engine/ple_ring_state.hpp"
#include "engine/weights.hpp"

namespace ple {

namespace {

// The streams' tensors, one behind the other.
Result<std::vector<std::uint16_t>> read_streams(const ModelSpec& model,
                                                const std::vector<TensorRef>& tensors) {
  std::vector<std::uint16_t> all;
  for (const TensorRef& tensor : tensors) {
    PLE_TRY_ASSIGN(const auto values, read_bf16(model, tensor));
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Layer>> load_engram_demo_layer_cpu(const ModelSpec& model,
                                                          const LayerSpec& layer,
                                                          const LayerOptions& options,
                                                          ThreadPool& pool) {
  const auto& parts = std::get<EngramDemoLayer>(layer.parts);
  const kernels::PleShape shape = ple_shape_of(layer);
  PLE_TRY_ASSIGN(const auto norm_key, read_streams(model, parts.norm_key));
  PLE_TRY_ASSIGN(const auto norm_query, read_streams(model, parts.norm_query));
  PLE_TRY_ASSIGN(const auto norm_conv, read_streams(model, parts.norm_conv));
  PLE_TRY_ASSIGN(const auto key_bias, read_streams(model, parts.key_bias));
  PLE_TRY_ASSIGN(const auto value_bias, read_bf16(model, parts.value_bias));
  PLE_TRY_ASSIGN(const auto conv, read_bf16(model, parts.conv));
  PLE_TRY_ASSIGN(kernels::PleWeightsCpu weights,
                 kernels::PleWeightsCpu::create(shape, {.norm_key = norm_key.data(),
                                                        .norm_query = norm_query.data(),
                                                        .norm_conv = norm_conv.data(),
                                                        .conv = conv.data(),
                                                        .key_bias = key_bias.data(),
                                                        .value_bias = value_bias.data(),
                                                        .norm_offset = 0.0F}));
  for (std::size_t stream = 0; stream < parts.key.size(); ++stream) {
    PLE_TRY(pack_bf16(model, parts.key[stream], static_cast<std::int64_t>(stream) * parts.hidden,
                      weights.key()));
  }
  PLE_TRY(pack_bf16(model, parts.value, 0, weights.value()));
  return make_ple_layer_cpu(shape, options, std::move(weights), pool);
}

}  // namespace ple
