#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "engine/cuda_layer.hpp"
#include "engine/engram_v41_layer.hpp"
#include "engine/layers_cuda.hpp"
#include "engine/weights.hpp"
#include "kernels/engram_layer_cuda.hpp"

namespace ple {

namespace {

using kernels::EngramShape;
using kernels::EngramStepBlock;
using kernels::EngramWeightsCuda;

class EngramV41LayerCuda : public CudaLayer {
 public:
  EngramV41LayerCuda(const EngramShape& shape, const LayerOptions& options,
                     std::shared_ptr<const RowHash> hash, AlignedDeviceBuffer memory,
                     AsyncCuda& device)
      : CudaLayer(device),
        shape_(shape),
        rounding_(engram_rounding_of(options)),
        form_(kernels::engram_weight_form(device.traits())),
        hash_(std::move(hash)),
        memory_(std::move(memory)),
        weights_(EngramWeightsCuda::view(memory_.data(), shape, form_)) {
    traits_ = engram_traits(shape, form_ == kernels::EngramWeightForm::e4m3 ? 1 : 2);
  }

 private:
  std::size_t block_bytes(std::int32_t token_capacity,
                          std::int32_t /*span_capacity*/) const override {
    return EngramStepBlock::bytes(shape_, token_capacity);
  }

  void write_block(const LayerRun& run, std::byte* bytes, std::int32_t token_capacity,
                   std::int32_t /*span_capacity*/) const override {
    const kernels::EngramStepView block = EngramStepBlock::view(bytes, shape_, token_capacity);
    const auto token_count = static_cast<std::int32_t>(run.tokens.size());
    for (std::int32_t token = token_count; token < token_capacity; ++token) {
      block.slots[std::int64_t{token} * shape_.column_count] = kNoTokenSlot;
    }
    std::copy(run.slots.begin(), run.slots.end(), block.slots);
    std::transform(run.tokens.begin(), run.tokens.end(), block.dead,
                   [&](TokenId token) { return hash_->is_dead(token) ? 1 : 0; });
    *block.counts = {.token_count = token_count};
  }

  std::size_t scratch_bytes(std::int32_t token_capacity) const override {
    return kernels::engram_layer_scratch_bytes_cuda(shape_, rounding_, token_capacity);
  }

  Status enqueue(const LayerRun& run, const CudaRun& cuda) const override {
    return kernels::engram_layer_cuda({.shape = shape_,
                                       .rounding = rounding_,
                                       .highway_type = highway_type(run.element),
                                       .output_mode = run.mode,
                                       .traits = device_.traits(),
                                       .form = form_,
                                       .weights = weights_,
                                       .rows = run.rows,
                                       .step = cuda.block,
                                       .pinned_step = cuda.pinned_block,
                                       .highway = cuda.input,
                                       .output = cuda.output,
                                       .scratch = cuda.scratch,
                                       .token_capacity = cuda.token_capacity},
                                      static_cast<cudaStream_t>(run.stream));
  }

  EngramShape shape_;
  kernels::EngramRounding rounding_;
  kernels::EngramWeightForm form_;
  std::shared_ptr<const RowHash> hash_;
  AlignedDeviceBuffer memory_;
  EngramWeightsCuda weights_;  // in memory_
};

// The kernels multiply by powers of two up to a limit, and do not tell NaN from a number.
Status check_weights(const ModelSpec& model, const EngramLayer& parts) {
  std::vector<std::byte> scales(parts.key_value_scale.bytes);
  PLE_TRY(read_tensor(model, parts.key_value_scale, 0, scales));
  const auto most = static_cast<int>(*std::max_element(scales.begin(), scales.end()));
  if (most > kernels::kMaxWeightScale) {
    return error(StatusCode::unsupported, "tensor '{}': a scale of code {}, on a GPU at most {}",
                 parts.key_value_scale.name, most, kernels::kMaxWeightScale);
  }
  return for_each_row_block(
      model, parts.key_value, [&](std::int64_t begin, std::int64_t count, const std::byte* rows) {
        const std::int64_t width = parts.key_value.shape.back();
        constexpr std::byte kNan{0x7F};
        const auto* end = rows + count * width;
        const auto* nan =
            std::find_if(rows, end, [&](std::byte code) { return (code & kNan) == kNan; });
        return nan == end ? Status()
                          : error(StatusCode::unsupported, "tensor '{}': row {} has a NaN",
                                  parts.key_value.name, begin + (nan - rows) / width);
      });
}

}  // namespace

Result<std::unique_ptr<Layer>> load_engram_v41_layer_cuda(const ModelSpec& model,
                                                          const LayerSpec& layer,
                                                          const LayerOptions& options,
                                                          AsyncCuda& device) {
  const auto& parts = std::get<EngramLayer>(layer.parts);
  const EngramShape shape = engram_shape_of(layer);
  PLE_TRY(kernels::check_engram_shape_cuda(shape));
  PLE_TRY(check_weights(model, parts));
  PLE_TRY_ASSIGN(const CudaScope scope, device.enter());
  const cudaStream_t stream = device.own_stream().get();
  const kernels::EngramWeightForm form = kernels::engram_weight_form(device.traits());
  PLE_TRY_ASSIGN(const DeviceBuffer codes, upload_tensor(model, parts.key_value, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer scales, upload_tensor(model, parts.key_value_scale, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer query, upload_tensor(model, parts.query_weight, stream));
  PLE_TRY_ASSIGN(const DeviceBuffer key, upload_tensor(model, parts.key_weight, stream));
  PLE_TRY_ASSIGN(AlignedDeviceBuffer memory,
                 AlignedDeviceBuffer::allocate(EngramWeightsCuda::bytes(shape, form)));
  PLE_TRY(kernels::pack_engram_weights_cuda({.shape = shape,
                                             .form = form,
                                             .codes = codes.as<std::uint8_t>(),
                                             .scales = scales.as<std::uint8_t>(),
                                             .query_weight = query.as<std::uint16_t>(),
                                             .key_weight = key.as<std::uint16_t>(),
                                             .memory = memory.data()},
                                            stream));
  PLE_TRY(device.own_stream().synchronize());
  return std::unique_ptr<Layer>(
      std::make_unique<EngramV41LayerCuda>(shape, options, layer.hash, std::move(memory), device));
}

}  // namespace ple
