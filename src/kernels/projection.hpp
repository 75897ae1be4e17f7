#pragma once

#include <algorithm>
#include <cstdint>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/e4m3_panel_cpu.hpp"

// Products Y = X . W^T with bf16 weights and f32 sums on the CPU. The sum of an output runs over k
// in one order, whatever the other tokens, the threads and the processor are: for each pair of
// elements first the odd, then the even one is added with one rounding each. The bits of a token's
// outputs therefore never depend on the batch around it. A matrix may ask for sums of blocks of k,
// added up one after the other, as FP8 products with a scale for each block are made; or for exact
// sums, rounded once to the nearest bf16, as a bf16 model's products are but for their last bits.

namespace ple::kernels {

// A weight matrix in the order in which the products read it. The rows form groups of equal size
// (the streams of a layer, say); each group is cut into panels of kPanelRows rows, the last one
// padded with zeros. A panel holds, for each pair of elements of k, that pair of all its rows.
class PackedMatrix {
 public:
  static constexpr std::int32_t kPanelRows = 64;

  struct Shape {
    std::int32_t group_count = 1;
    std::int32_t group_rows = 0;
    std::int32_t inner_count = 0;  // length of k
    std::int32_t block_count = 0;  // elements of k in a block, even; 0: all are one block
    bool is_exact = false;         // float64 sums, the results nearest in bf16; slower
    bool is_e4m3 = false;          // held as codes and scales; groups and k in whole blocks of 32
  };

  // All zero.
  static Result<PackedMatrix> allocate(const Shape& shape);

  PackedMatrix() = default;

  // Packs rows [row_begin, row_begin + row_count) of the matrix from row-major bf16 bits, so that a
  // loader holds a few rows at a time. Blocks that share no panel may be packed by several threads.
  Status pack_rows(std::int64_t row_begin, std::int64_t row_count, const std::uint16_t* rows);

  // The same of a matrix of codes: codes of these rows, scales of the whole matrix [row_count / 32,
  // inner_count / 32]. Refused as unsupported where a value is not a normal bf16 number.
  Status pack_e4m3_rows(std::int64_t row_begin, std::int64_t row_count, const std::uint8_t* codes,
                        const std::uint8_t* scales);

  const Shape& shape() const { return shape_; }
  std::int64_t row_count() const { return std::int64_t{shape_.group_count} * shape_.group_rows; }
  std::int32_t pair_count() const { return (shape_.inner_count + 1) / 2; }
  std::int32_t group_panel_count() const {
    return (shape_.group_rows + kPanelRows - 1) / kPanelRows;
  }
  std::int32_t panel_count() const { return shape_.group_count * group_panel_count(); }

  // The first row of a panel, and how many of its rows are not padding.
  std::int64_t panel_row(std::int32_t panel_index) const {
    return std::int64_t{panel_index / group_panel_count()} * shape_.group_rows +
           panel_index % group_panel_count() * kPanelRows;
  }
  std::int32_t panel_rows(std::int32_t panel_index) const {
    const std::int32_t rows_left =
        shape_.group_rows - panel_index % group_panel_count() * kPanelRows;
    return rows_left < kPanelRows ? rows_left : kPanelRows;
  }

  // [pair_count, kPanelRows, 2] bf16 bits.
  const std::uint16_t* panel(std::int32_t panel_index) const {
    return data_.as<std::uint16_t>() + panel_index * panel_length();
  }
  E4m3Panel e4m3_panel(std::int32_t panel_index) const {
    const auto* const codes = data_.as<std::uint8_t>() + panel_index * e4m3_panel_bytes();
    return {codes, codes + panel_length()};
  }

 private:
  std::int64_t panel_length() const { return std::int64_t{pair_count()} * kPanelRows * 2; }
  std::int64_t e4m3_panel_bytes() const {
    return panel_length() + std::int64_t{shape_.inner_count} / kScaleBlock * 2;
  }
  // Where row number row stands: its panel, and its place there.
  struct PanelRow {
    std::int64_t panel_index;
    std::int64_t row;
  };
  PanelRow panel_row_of(std::int64_t row) const {
    const std::int64_t group_row = row % shape_.group_rows;
    return {row / shape_.group_rows * group_panel_count() + group_row / kPanelRows,
            group_row % kPanelRows};
  }
  Status check_rows(std::int64_t row_begin, std::int64_t row_count) const;

  AlignedBuffer data_;
  Shape shape_;
};

// Activations of a product: rows of pair_count pairs, the last one padded with zero when k is odd.
template <class Element>
struct Activations {
  const Element* data = nullptr;  // [token_count, stride]
  std::int64_t stride = 0;        // in elements, even
  std::int32_t token_count = 0;
};

inline constexpr std::int32_t kProductTokens = 48;       // whose product of a panel stays in the L1
inline constexpr std::int32_t kE4m3ProductTokens = 256;  // or that share the decoding of a panel

// One panel of a product: product[t * kPanelRows + r] of every token t and row r of the panel.
// next_panel, unless null, may be read ahead into the caches meanwhile.
void project_panel(const PackedMatrix& matrix, std::int32_t panel_index,
                   const Activations<std::uint16_t>& x, float* product,
                   const std::uint16_t* next_panel);
void project_panel(const PackedMatrix& matrix, std::int32_t panel_index,
                   const Activations<float>& x, float* product, const std::uint16_t* next_panel);

// A stretch of a product while it lies in the caches.
struct ProductBlock {
  std::int32_t panel_index = 0;
  std::int32_t token_begin = 0;
  std::int32_t token_count = 0;
  float* product = nullptr;  // [token_count, kPanelRows], to use up
};

// The whole product, block by block: take(block), on the threads of the pool.
template <class Element, class Take>
void project_blocks(const PackedMatrix& matrix, const Activations<Element>& x, ThreadPool& pool,
                    const Take& take) {
  pool.parallel_ranges(matrix.panel_count(), [&](std::int64_t begin, std::int64_t end) {
    alignas(64) float product[kE4m3ProductTokens * PackedMatrix::kPanelRows];
    const bool is_e4m3 = matrix.shape().is_e4m3;
    const std::int32_t tokens_max = is_e4m3 ? kE4m3ProductTokens : kProductTokens;
    for (auto p = static_cast<std::int32_t>(begin); p < end; ++p) {
      const std::uint16_t* next_panel = p + 1 < end && !is_e4m3 ? matrix.panel(p + 1) : nullptr;
      for (std::int32_t token = 0; token < x.token_count; token += tokens_max) {
        const std::int32_t tokens = std::min(tokens_max, x.token_count - token);
        project_panel(matrix, p, {x.data + token * x.stride, x.stride, tokens}, product,
                      token == 0 ? next_panel : nullptr);
        take(ProductBlock{p, token, tokens, product});
      }
    }
  });
}

// The whole product: y [token_count, row_count] f32.
void project(const PackedMatrix& matrix, const Activations<std::uint16_t>& x, float* y,
             ThreadPool& pool);
void project(const PackedMatrix& matrix, const Activations<float>& x, float* y, ThreadPool& pool);

// What runs the bf16 products on this processor, for reports: "AVX512_BF16", "AVX2", ...
const char* projection_target();

}  // namespace ple::kernels
