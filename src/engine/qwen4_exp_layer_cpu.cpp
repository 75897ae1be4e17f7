#include "engine/layers_cpu.hpp"
#include "engine/packed_weights_cpu.hpp"
#include "engine/ple_layer_cpu.hpp"
#include "engine/ple_ring_state.hpp"
#include "engine/weights.hpp"

namespace ple {

Result<std::unique_ptr<Layer>> load_qwen4_exp_layer_cpu(const ModelSpec& model,
                                                        const LayerSpec& layer,
                                                        const LayerOptions& options,
                                                        ThreadPool& pool) {
  const auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  const kernels::PleShape shape = ple_shape_of(layer);
  PLE_TRY_ASSIGN(const auto norm_key, read_bf16(model, parts.norm_key));
  PLE_TRY_ASSIGN(const auto norm_query, read_bf16(model, parts.norm_query));
  PLE_TRY_ASSIGN(const auto norm_conv, read_bf16(model, parts.norm_conv));
  PLE_TRY_ASSIGN(const auto conv, read_bf16(model, parts.conv));
  PLE_TRY_ASSIGN(kernels::PleWeightsCpu weights,
                 kernels::PleWeightsCpu::create(shape, {.norm_key = norm_key.data(),
                                                        .norm_query = norm_query.data(),
                                                        .norm_conv = norm_conv.data(),
                                                        .conv = conv.data()}));
  PLE_TRY(pack_bf16(model, parts.key, 0, weights.key()));
  PLE_TRY(pack_bf16(model, parts.value, 0, weights.value()));
  return make_ple_layer_cpu(shape, options, std::move(weights), pool);
}

}  // namespace ple
