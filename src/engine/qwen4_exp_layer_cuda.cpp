#include "engine/cuda_layer.hpp"
#include "engine/layers_cuda.hpp"
#include "engine/ple_layer_cuda.hpp"
#include "engine/ple_ring_state.hpp"

namespace ple {

Result<std::unique_ptr<Layer>> load_qwen4_exp_layer_cuda(const ModelSpec& model,
                                                         const LayerSpec& layer,
                                                         const LayerOptions& options,
                                                         AsyncCuda& device) {
  const auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  const kernels::PleShape shape = ple_shape_of(layer);
  PLE_TRY(kernels::check_ple_shape_cuda(shape));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  PLE_TRY_ASSIGN(const DeviceBuffer key, upload_tensor(model, parts.key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer value, upload_tensor(model, parts.value, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_key, upload_tensor(model, parts.norm_key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_query, upload_tensor(model, parts.norm_query, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_conv, upload_tensor(model, parts.norm_conv, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer conv, upload_tensor(model, parts.conv, stream));
  return make_ple_layer_cuda({.shape = shape,
                              .key = key.as<std::uint16_t>(),
                              .value = value.as<std::uint16_t>(),
                              .vectors = {.norm_key = norm_key.as<std::uint16_t>(),
                                          .norm_query = norm_query.as<std::uint16_t>(),
                                          .norm_conv = norm_conv.as<std::uint16_t>(),
                                          .conv = conv.as<std::uint16_t>()}},
                             options, device);
}

}  // namespace ple
