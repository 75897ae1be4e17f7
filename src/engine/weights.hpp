#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// Reads bytes [begin, begin + out.size()) of a dense tensor, from its file or the caller's memory.
Status read_tensor(const ModelSpec& model, const TensorRef& tensor, std::uint64_t begin,
                   std::span<std::byte> out);

// A whole bf16 tensor. The shape was checked when the model was opened.
Result<std::vector<std::uint16_t>> read_bf16(const ModelSpec& model, const TensorRef& tensor);

// Calls take(row_begin, row_count, rows) over the rows of a matrix in blocks of a few MB, so that
// weights are packed without being held twice. The rows lie at an address for any element type.
Status for_each_row_block(const ModelSpec& model, const TensorRef& tensor,
                          const std::function<Status(std::int64_t row_begin, std::int64_t row_count,
                                                     const std::byte* rows)>& take);

}  // namespace ple
