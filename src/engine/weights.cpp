#include "engine/weights.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "checkpoint/input_file.hpp"

namespace ple {

Status read_tensor(const ModelSpec& model, const TensorRef& tensor, std::uint64_t begin,
                   std::span<std::byte> out) {
  if (begin > tensor.bytes || out.size() > tensor.bytes - begin) {
    return error(StatusCode::internal, "tensor '{}': bytes {} + {} beyond its {}", tensor.name,
                 begin, out.size(), tensor.bytes);
  }
  if (tensor.data != nullptr) {
    std::memcpy(out.data(), tensor.data + begin, out.size());
    return {};
  }
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(model.files[tensor.file_index].path));
  return file.read(tensor.offset + begin, out);
}

Result<std::vector<std::uint16_t>> read_bf16(const ModelSpec& model, const TensorRef& tensor) {
  std::vector<std::uint16_t> values(tensor.bytes / sizeof(std::uint16_t));
  PLE_TRY(read_tensor(model, tensor, 0, std::as_writable_bytes(std::span(values))));
  return values;
}

Status for_each_row_block(
    const ModelSpec& model, const TensorRef& tensor,
    const std::function<Status(std::int64_t, std::int64_t, const std::byte*)>& take) {
  constexpr std::uint64_t kBlockBytes = std::uint64_t{4} << 20;
  constexpr std::int64_t kRowsMultiple = 64;  // whole panels of the packed layouts
  const std::int64_t row_count = tensor.shape.front();
  const std::uint64_t row_bytes = tensor.bytes / static_cast<std::uint64_t>(row_count);
  const std::int64_t block_rows =
      std::max<std::int64_t>(kRowsMultiple, static_cast<std::int64_t>(kBlockBytes / row_bytes) /
                                                kRowsMultiple * kRowsMultiple);
  std::vector<std::byte> rows(static_cast<std::size_t>(std::min(block_rows, row_count)) *
                              row_bytes);
  for (std::int64_t begin = 0; begin < row_count; begin += block_rows) {
    const std::int64_t count = std::min(block_rows, row_count - begin);
    const auto bytes = static_cast<std::size_t>(count) * row_bytes;
    PLE_TRY(read_tensor(model, tensor, static_cast<std::uint64_t>(begin) * row_bytes,
                        std::span(rows).first(bytes)));
    PLE_TRY(take(begin, count, rows.data()));
  }
  return {};
}

}  // namespace ple
