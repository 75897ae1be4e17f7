#include <vector>

#include "engine/cuda_layer.hpp"
#include "engine/layers_cuda.hpp"
#include "engine/ple_layer_cuda.hpp"
#include "engine/ple_ring_state.hpp"

namespace ple {

namespace {

// The streams' tensors, one behind the other.
Result<DeviceBuffer> upload_streams(const ModelSpec& model, const std::vector<TensorRef>& tensors,
                                    cudaStream_t stream) {
  const std::uint64_t bytes = tensors.front().bytes;  // of each
  PLE_TRY_ASSIGN(DeviceBuffer buffer, DeviceBuffer::allocate(tensors.size() * bytes));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PLE_TRY(upload_tensor(model, tensors[i], buffer.data() + i * bytes, stream));
  }
  return buffer;
}

}  // namespace

Result<std::unique_ptr<Layer>> load_engram_demo_layer_cuda(const ModelSpec& model,
                                                           const LayerSpec& layer,
                                                           const LayerOptions& options,
                                                           AsyncCuda& device) {
  const auto& parts = std::get<EngramDemoLayer>(layer.parts);
  const kernels::PleShape shape = ple_shape_of(layer);
  PLE_TRY(kernels::check_ple_shape_cuda(shape));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  PLE_TRY_ASSIGN(const DeviceBuffer key, upload_streams(model, parts.key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer value, upload_tensor(model, parts.value, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_key, upload_streams(model, parts.norm_key, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_query, upload_streams(model, parts.norm_query, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer norm_conv, upload_streams(model, parts.norm_conv, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer key_bias, upload_streams(model, parts.key_bias, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer value_bias, upload_tensor(model, parts.value_bias, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer conv, upload_tensor(model, parts.conv, stream));
  return make_ple_layer_cuda({.shape = shape,
                              .key = key.as<std::uint16_t>(),
                              .value = value.as<std::uint16_t>(),
                              .vectors = {.norm_key = norm_key.as<std::uint16_t>(),
                                          .norm_query = norm_query.as<std::uint16_t>(),
                                          .norm_conv = norm_conv.as<std::uint16_t>(),
                                          .conv = conv.as<std::uint16_t>(),
                                          .key_bias = key_bias.as<std::uint16_t>(),
                                          .value_bias = value_bias.as<std::uint16_t>(),
                                          .norm_offset = 0.0F}},
                             options, device);
}

}  // namespace ple
