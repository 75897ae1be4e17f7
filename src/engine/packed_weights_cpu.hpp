#pragma once

#include <cstdint>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "kernels/projection.hpp"

namespace ple {

// Reads a bf16 matrix into rows row_begin .. of a packed one.
Status pack_bf16(const ModelSpec& model, const TensorRef& tensor, std::int64_t row_begin,
                 kernels::PackedMatrix& matrix);

// The same from E4M3 codes with an E8M0 scale for each 32x32 block, as they are or, into a matrix
// of bf16, decoded.
Status pack_e4m3_blocks(const ModelSpec& model, const TensorRef& codes, const TensorRef& scales,
                        kernels::PackedMatrix& matrix);

}  // namespace ple
