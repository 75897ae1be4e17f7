#include <algorithm>
#include <utility>

#include "engine/cuda_layer.hpp"
#include "engine/gemma_scales.hpp"
#include "engine/layers_cuda.hpp"
#include "kernels/block_weights_cuda.hpp"
#include "kernels/gemma_layer_cuda.hpp"
#include "kernels/token_step_cuda.hpp"

namespace ple {

namespace {

using kernels::GemmaScales;
using kernels::GemmaShape;
using kernels::TokenStepBlock;

class GemmaLayerCuda : public CudaLayer {
 public:
  GemmaLayerCuda(const GemmaShape& shape, const GemmaScales& scales, bool rounds_each,
                 AlignedDeviceBuffer weights, DeviceBuffer norm_weight, AsyncCuda& device)
      : CudaLayer(device),
        shape_(shape),
        scales_(scales),
        rounds_each_(rounds_each),
        weights_(std::move(weights)),
        norm_weight_(std::move(norm_weight)) {
    const kernels::BlockTiles tiles = gemma_tiles(shape, kernels::HighwayType::bf16);
    traits_.input_elements = shape.hidden;
    traits_.output_elements = tiles.column_count;
    traits_.stream_count = 1;
    traits_.dense_bytes = tiles.weight_bytes() + norm_weight_.bytes();
  }

 private:
  std::size_t block_bytes(std::int32_t token_capacity, std::int32_t) const override {
    return TokenStepBlock::bytes(1, token_capacity);
  }

  void write_block(const LayerRun& run, std::byte* bytes, std::int32_t token_capacity,
                   std::int32_t) const override {
    const kernels::TokenStepView block = TokenStepBlock::view(bytes, 1, token_capacity);
    SlotId* end = std::copy(run.slots.begin(), run.slots.end(), block.slots);
    std::fill(end, block.slots + token_capacity, kNoTokenSlot);
    *block.counts = {.token_count = static_cast<std::int32_t>(run.tokens.size())};
  }

  std::size_t scratch_bytes(std::int32_t token_capacity) const override {
    return kernels::gemma_layer_scratch_bytes_cuda(shape_, token_capacity);
  }

  Status enqueue(const LayerRun& run, const CudaRun& cuda) const override {
    return kernels::gemma_layer_cuda({.shape = shape_,
                                      .scales = scales_,
                                      .rounds_each = rounds_each_,
                                      .type = highway_type(run.element),
                                      .traits = device_.traits(),
                                      .weights = weights_.as<std::uint16_t>(),
                                      .norm_weight = norm_weight_.as<std::uint16_t>(),
                                      .rows = run.rows,
                                      .step = cuda.block,
                                      .pinned_step = cuda.pinned_block,
                                      .input = cuda.input,
                                      .output = cuda.output,
                                      .scratch = cuda.scratch,
                                      .token_capacity = cuda.token_capacity},
                                     static_cast<cudaStream_t>(run.stream));
  }

  GemmaShape shape_;
  GemmaScales scales_;
  bool rounds_each_;
  AlignedDeviceBuffer weights_;
  DeviceBuffer norm_weight_;
};

}  // namespace

Result<std::unique_ptr<Layer>> load_gemma_layer_cuda(const ModelSpec& model, const LayerSpec& layer,
                                                     const LayerOptions& options,
                                                     AsyncCuda& device) {
  const auto& parts = std::get<GemmaLayer>(layer.parts);
  const GemmaShape shape{.hidden = parts.hidden,
                         .layer_count = parts.layer_count,
                         .layer_dim = parts.layer_dim,
                         .eps = parts.eps};
  const bool is_bf16 = options.arithmetic == kernels::Arithmetic::reference;
  PLE_TRY(kernels::check_gemma_shape_cuda(shape));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  PLE_TRY_ASSIGN(const DeviceBuffer projection, upload_tensor(model, parts.projection, stream));
  PLE_TRY_ASSIGN(DeviceBuffer norm_weight, upload_tensor(model, parts.projection_norm, stream));
  const kernels::BlockTiles tiles = gemma_tiles(shape, kernels::HighwayType::bf16);
  PLE_TRY_ASSIGN(AlignedDeviceBuffer weights, AlignedDeviceBuffer::allocate(tiles.weight_bytes()));
  for (std::int32_t block = 0; block < tiles.weight_block_count; ++block) {
    const std::int32_t begin = block * tiles.block_dim;
    PLE_TRY(
        kernels::pack_block_cuda({.tiles = tiles,
                                  .block_index = block,
                                  .from = projection.as<std::uint16_t>() + begin,
                                  .stride = shape.hidden,
                                  .element_count = std::min(tiles.block_dim, shape.hidden - begin),
                                  .weights = weights.as<std::uint16_t>()},
                                 stream));
  }
  PLE_TRY(device.own_stream().synchronize());
  return std::unique_ptr<Layer>(
      std::make_unique<GemmaLayerCuda>(shape, gemma_scales(parts, is_bf16), is_bf16,
                                       std::move(weights), std::move(norm_weight), device));
}

}  // namespace ple
