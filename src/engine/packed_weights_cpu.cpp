#include "engine/packed_weights_cpu.hpp"

#include "base/number_formats.hpp"
#include "engine/weights.hpp"

namespace ple {

Status pack_bf16(const ModelSpec& model, const TensorRef& tensor, std::int64_t row_begin,
                 kernels::PackedMatrix& matrix) {
  return for_each_row_block(model, tensor, [&](auto begin, auto count, const std::byte* rows) {
    return matrix.pack_rows(row_begin + begin, count, reinterpret_cast<const std::uint16_t*>(rows));
  });
}

Status pack_e4m3_blocks(const ModelSpec& model, const TensorRef& codes, const TensorRef& scales,
                        kernels::PackedMatrix& matrix) {
  constexpr std::int64_t kBlock = kernels::kScaleBlock;
  const std::int64_t width = codes.shape.back();
  std::vector<std::byte> scale_bytes(scales.bytes);
  PLE_TRY(read_tensor(model, scales, 0, scale_bytes));
  if (matrix.shape().is_e4m3) {
    return for_each_row_block(model, codes, [&](auto begin, auto count, const std::byte* rows) {
      return matrix.pack_e4m3_rows(begin, count, reinterpret_cast<const std::uint8_t*>(rows),
                                   reinterpret_cast<const std::uint8_t*>(scale_bytes.data()));
    });
  }
  std::vector<std::uint16_t> values;
  return for_each_row_block(model, codes, [&](auto begin, auto count, const std::byte* rows) {
    values.resize(static_cast<std::size_t>(count * width));
    for (std::int64_t i = 0; i < count * width; ++i) {
      const std::int64_t block =
          (begin + i / width) / kBlock * (width / kBlock) + i % width / kBlock;
      const float scale =
          e8m0_to_f32(static_cast<std::uint8_t>(scale_bytes[static_cast<std::size_t>(block)]));
      values[static_cast<std::size_t>(i)] =
          f32_to_bf16(e4m3_to_f32(static_cast<std::uint8_t>(rows[i])) * scale);
    }
    return matrix.pack_rows(begin, count, values.data());
  });
}

}  // namespace ple
