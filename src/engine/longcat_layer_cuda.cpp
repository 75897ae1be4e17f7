#include <algorithm>
#include <utility>

#include "engine/cuda_layer.hpp"
#include "engine/layers_cuda.hpp"
#include "kernels/block_weights_cuda.hpp"
#include "kernels/longcat_layer_cuda.hpp"
#include "kernels/token_step_cuda.hpp"

namespace ple {

namespace {

using kernels::LongcatShape;
using kernels::TokenStepBlock;

class LongcatLayerCuda : public CudaLayer {
 public:
  LongcatLayerCuda(const LongcatShape& shape, bool rounds_each, std::vector<TokenId> ignored,
                   DeviceBuffer words, AlignedDeviceBuffer weights, AsyncCuda& device)
      : CudaLayer(device),
        shape_(shape),
        rounds_each_(rounds_each),
        ignored_(std::move(ignored)),
        words_(std::move(words)),
        weights_(std::move(weights)) {
    traits_.output_elements = shape.hidden;
    traits_.stream_count = 1;
    traits_.dense_bytes = words_.bytes() + longcat_tiles(shape).weight_bytes();
  }

 private:
  std::size_t block_bytes(std::int32_t token_capacity, std::int32_t) const override {
    return TokenStepBlock::bytes(shape_.table_count, token_capacity);
  }

  void write_block(const LayerRun& run, std::byte* bytes, std::int32_t token_capacity,
                   std::int32_t) const override {
    const kernels::TokenStepView block =
        TokenStepBlock::view(bytes, shape_.table_count, token_capacity);
    const auto token_count = static_cast<std::int32_t>(run.tokens.size());
    std::copy(run.tokens.begin(), run.tokens.end(), block.tokens);
    std::copy(run.slots.begin(), run.slots.end(), block.slots);
    const auto slots_of = [&](std::int32_t token) {
      return block.slots + std::int64_t{token} * shape_.table_count;
    };
    for (std::int32_t token = 0; token < token_count; ++token) {
      const bool is_ignored =
          std::binary_search(ignored_.begin(), ignored_.end(), block.tokens[token]);
      block.flags[token] = is_ignored ? 1 : 0;
      if (is_ignored) std::fill_n(slots_of(token), shape_.table_count, kZeroSlot);
    }
    for (std::int32_t token = token_count; token < token_capacity; ++token) {
      *slots_of(token) = kNoTokenSlot;
    }
    *block.counts = {.token_count = token_count};
  }

  std::size_t scratch_bytes(std::int32_t token_capacity) const override {
    return kernels::longcat_layer_scratch_bytes_cuda(shape_, token_capacity);
  }

  Status enqueue(const LayerRun& run, const CudaRun& cuda) const override {
    return kernels::longcat_layer_cuda({.shape = shape_,
                                        .rounds_each = rounds_each_,
                                        .output_type = highway_type(run.element),
                                        .traits = device_.traits(),
                                        .words = words_.as<std::uint16_t>(),
                                        .weights = weights_.as<std::uint16_t>(),
                                        .rows = run.rows,
                                        .step = cuda.block,
                                        .pinned_step = cuda.pinned_block,
                                        .output = cuda.output,
                                        .scratch = cuda.scratch,
                                        .token_capacity = cuda.token_capacity},
                                       static_cast<cudaStream_t>(run.stream));
  }

  LongcatShape shape_;
  bool rounds_each_;
  std::vector<TokenId> ignored_;  // ascending
  DeviceBuffer words_;
  AlignedDeviceBuffer weights_;
};

}  // namespace

Result<std::unique_ptr<Layer>> load_longcat_layer_cuda(const ModelSpec& model,
                                                       const LayerSpec& layer,
                                                       const LayerOptions& options,
                                                       AsyncCuda& device) {
  const auto& parts = std::get<LongcatLayer>(layer.parts);
  const LongcatShape shape{.vocab_size = parts.vocab_size,
                           .hidden = parts.hidden,
                           .table_count = parts.table_count,
                           .row_dim = parts.hidden / parts.table_count};
  PLE_TRY(kernels::check_longcat_shape_cuda(shape));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  PLE_TRY_ASSIGN(DeviceBuffer words, upload_tensor(model, parts.word_embedding, stream));
  const kernels::BlockTiles tiles = kernels::longcat_tiles(shape);
  PLE_TRY_ASSIGN(AlignedDeviceBuffer weights, AlignedDeviceBuffer::allocate(tiles.weight_bytes()));
  for (std::int32_t table = 0; table < shape.table_count; ++table) {
    PLE_TRY_ASSIGN(const DeviceBuffer projection,
                   upload_tensor(model, parts.projection[static_cast<std::size_t>(table)], stream));
    PLE_TRY(kernels::pack_block_cuda({.tiles = tiles,
                                      .block_index = table,
                                      .from = projection.as<std::uint16_t>(),
                                      .stride = shape.row_dim,
                                      .element_count = shape.row_dim,
                                      .weights = weights.as<std::uint16_t>()},
                                     stream));
    PLE_TRY(device.own_stream().synchronize());
  }
  return std::unique_ptr<Layer>(std::make_unique<LongcatLayerCuda>(
      shape, options.arithmetic == kernels::Arithmetic::reference, parts.ignored_tokens,
      std::move(words), std::move(weights), device));
}

}  // namespace ple
