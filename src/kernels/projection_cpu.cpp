#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/projection_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/panel_product.hpp"
#include "kernels/projection.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/number_formats.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int kPanelRows = PackedMatrix::kPanelRows;
using F32 = hn::CappedTag<float, kPanelRows>;
using U32 = hn::RebindToUnsigned<F32>;
using Vector = hn::Vec<F32>;

// The even and the odd element of a pair, as f32.
struct PairValues {
  Vector even, odd;
};

HWY_INLINE PairValues split_pairs(hn::Vec<U32> pairs) {
  const F32 f32;
  return {hn::BitCast(f32, hn::ShiftLeft<16>(pairs)),
          hn::BitCast(f32, hn::And(pairs, hn::Set(U32(), 0xFFFF0000U)))};
}

HWY_INLINE PairValues broadcast_pair(const std::uint16_t* from) {
  std::uint32_t pair;
  std::memcpy(&pair, from, sizeof(pair));
  return split_pairs(hn::Set(U32(), pair));
}

HWY_INLINE PairValues broadcast_pair(const float* from) {
  const F32 f32;
  return {hn::Set(f32, from[0]), hn::Set(f32, from[1])};
}

// kVectors vectors of rows from row_begin on by kTokens tokens from token_begin on, over the block
// of pairs that begins at pair_begin.
template <int kVectors, int kTokens, class Element>
HWY_NOINLINE void tile_product(const PanelProductArgs<Element>& args, std::int32_t token_begin,
                               int row_begin, std::int32_t pair_begin) {
  const F32 f32;
  const int lanes = static_cast<int>(hn::Lanes(f32));
  const Element* x = args.x + token_begin * args.x_stride + 2 * std::int64_t{pair_begin};
  const auto* w = reinterpret_cast<const std::uint32_t*>(args.panel) + row_begin +
                  std::int64_t{pair_begin} * kPanelRows;
  const std::int32_t pair_end = std::min(pair_begin + args.block_pairs, args.pair_count);
  Vector sum[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) sum[t][v] = hn::Zero(f32);
  }
  for (std::int32_t pair = pair_begin; pair < pair_end; ++pair, x += 2, w += kPanelRows) {
    PairValues w_pairs[kVectors];
    for (int v = 0; v < kVectors; ++v) w_pairs[v] = split_pairs(hn::LoadU(U32(), w + v * lanes));
    for (int t = 0; t < kTokens; ++t) {
      const PairValues x_pair = broadcast_pair(x + t * args.x_stride);
      for (int v = 0; v < kVectors; ++v) {
        sum[t][v] = hn::MulAdd(w_pairs[v].odd, x_pair.odd, sum[t][v]);
        sum[t][v] = hn::MulAdd(w_pairs[v].even, x_pair.even, sum[t][v]);
      }
    }
  }
  float* product = args.product + std::int64_t{token_begin} * kPanelRows + row_begin;
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = product + t * kPanelRows + v * lanes;
      hn::StoreU(pair_begin == 0 ? sum[t][v] : hn::Add(hn::LoadU(f32, to), sum[t][v]), f32, to);
    }
  }
}

template <class Element>
void panel_product(const PanelProductArgs<Element>& args) {
  // With 16 registers 2 x 4 sums fit, with 32 twice as many.
  constexpr int kVectors = HWY_MAX_BYTES >= 64 ? 4 : 2;
  constexpr int kTokens = 4;
  const int step = kVectors * static_cast<int>(hn::Lanes(F32()));
  for (int row = 0; row < kPanelRows; row += step) {
    for (std::int32_t pair = 0; pair < args.pair_count; pair += args.block_pairs) {
      std::int32_t token = 0;
      for (; token + kTokens <= args.token_count; token += kTokens) {
        tile_product<kVectors, kTokens>(args, token, row, pair);
      }
      for (; token < args.token_count; ++token) tile_product<kVectors, 1>(args, token, row, pair);
    }
  }
}

HWY_INLINE float pair_element(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}
HWY_INLINE float pair_element(float value) { return value; }

// The same with float64 sums, one token after the other.
template <class Element>
void exact_product(const PanelProductArgs<Element>& args) {
  using F64 = hn::CappedTag<double, kPanelRows / 4>;
  using HalfF32 = hn::Rebind<float, F64>;
  using HalfU32 = hn::Rebind<std::uint32_t, F64>;
  const F64 f64;
  const HalfF32 f32;
  const HalfU32 u32;
  const int lanes = static_cast<int>(hn::Lanes(f64));
  for (std::int32_t token = 0; token < args.token_count; ++token) {
    for (int row = 0; row < kPanelRows; row += 2 * lanes) {
      const Element* x = args.x + token * args.x_stride;
      const auto* w = reinterpret_cast<const std::uint32_t*>(args.panel) + row;
      auto first = hn::Zero(f64);
      auto second = hn::Zero(f64);
      const auto add = [&](auto pairs, auto& sum) HWY_ATTR {
        const auto odd = hn::BitCast(f32, hn::And(pairs, hn::Set(u32, 0xFFFF0000U)));
        const auto even = hn::BitCast(f32, hn::ShiftLeft<16>(pairs));
        sum = hn::MulAdd(hn::PromoteTo(f64, odd), hn::Set(f64, pair_element(x[1])), sum);
        sum = hn::MulAdd(hn::PromoteTo(f64, even), hn::Set(f64, pair_element(x[0])), sum);
      };
      for (std::int32_t pair = 0; pair < args.pair_count; ++pair, x += 2, w += kPanelRows) {
        add(hn::LoadU(u32, w), first);
        add(hn::LoadU(u32, w + lanes), second);
      }
      double sums[2 * hn::MaxLanes(f64)];
      hn::StoreU(first, f64, sums);
      hn::StoreU(second, f64, sums + lanes);
      float* product = args.product + std::int64_t{token} * kPanelRows + row;
      std::transform(sums, sums + 2 * lanes, product, f64_rounded_to_bf16);
    }
  }
}

void exact_product_bf16(const PanelProductArgs<std::uint16_t>& args) { exact_product(args); }

void exact_product_f32(const PanelProductArgs<float>& args) { exact_product(args); }

void panel_product_bf16(const PanelProductArgs<std::uint16_t>& args) { panel_product(args); }

void panel_product_f32(const PanelProductArgs<float>& args) { panel_product(args); }

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(exact_product_bf16);
HWY_EXPORT(exact_product_f32);
HWY_EXPORT(panel_product_bf16);
HWY_EXPORT(panel_product_f32);
HWY_EXPORT(target_name);

Result<PackedMatrix> PackedMatrix::allocate(const Shape& shape) {
  if (shape.group_count < 1 || shape.group_rows < 1 || shape.inner_count < 1 ||
      shape.block_count < 0 || shape.block_count % 2 != 0) {
    return error(StatusCode::invalid_argument,
                 "a matrix of {} x {} rows of {} elements in blocks of {}", shape.group_count,
                 shape.group_rows, shape.inner_count, shape.block_count);
  }
  PackedMatrix matrix;
  matrix.shape_ = shape;
  const std::int64_t bytes = matrix.panel_count() * matrix.panel_length() * 2;
  PLE_TRY_ASSIGN(matrix.data_, AlignedBuffer::allocate(static_cast<std::size_t>(bytes)));
  return matrix;
}

Status PackedMatrix::pack_rows(std::int64_t row_begin, std::int64_t row_count_,
                               const std::uint16_t* rows) {
  if (row_begin < 0 || row_count_ < 0 || row_begin > row_count() - row_count_) {
    return error(StatusCode::invalid_argument, "rows {} to {} of a matrix of {} rows", row_begin,
                 row_begin + row_count_, row_count());
  }
  for (std::int64_t i = 0; i < row_count_; ++i) {
    const std::int64_t row = row_begin + i;
    const std::int64_t group = row / shape_.group_rows;
    const std::int64_t group_row = row % shape_.group_rows;
    const std::int64_t panel_index = group * group_panel_count() + group_row / kPanelRows;
    std::uint16_t* to =
        data_.as<std::uint16_t>() + panel_index * panel_length() + group_row % kPanelRows * 2;
    const std::uint16_t* from = rows + i * shape_.inner_count;
    for (std::int32_t k = 0; k < shape_.inner_count; ++k) {
      to[std::int64_t{k / 2} * kPanelRows * 2 + k % 2] = from[k];
    }
  }
  return {};
}

namespace {

template <class Element>
PanelProductArgs<Element> panel_args(const PackedMatrix& matrix, std::int32_t panel_index,
                                     const Activations<Element>& x, float* product,
                                     const std::uint16_t* next_panel) {
  return {.panel = matrix.panel(panel_index),
          .next_panel = next_panel,
          .x = x.data,
          .product = product,
          .x_stride = x.stride,
          .pair_count = matrix.pair_count(),
          .block_pairs = matrix.shape().block_count == 0 ? matrix.pair_count()
                                                         : matrix.shape().block_count / 2,
          .token_count = x.token_count};
}

template <class Element>
void project_any(const PackedMatrix& matrix, const Activations<Element>& x, float* y,
                 ThreadPool& pool) {
  project_blocks(matrix, x, pool, [&](const ProductBlock& block) {
    for (std::int32_t t = 0; t < block.token_count; ++t) {
      std::copy_n(
          block.product + t * PackedMatrix::kPanelRows, matrix.panel_rows(block.panel_index),
          y + (block.token_begin + t) * matrix.row_count() + matrix.panel_row(block.panel_index));
    }
  });
}

}  // namespace

void project_panel(const PackedMatrix& matrix, std::int32_t panel_index,
                   const Activations<std::uint16_t>& x, float* product,
                   const std::uint16_t* next_panel) {
  static const PanelProductBf16 native = panel_product_avx512bf16();
  const auto args = panel_args(matrix, panel_index, x, product, next_panel);
  if (matrix.shape().is_exact) {
    HWY_DYNAMIC_DISPATCH(exact_product_bf16)(args);
  } else if (native != nullptr) {
    native(args);
  } else {
    HWY_DYNAMIC_DISPATCH(panel_product_bf16)(args);
  }
}

void project_panel(const PackedMatrix& matrix, std::int32_t panel_index,
                   const Activations<float>& x, float* product, const std::uint16_t* next_panel) {
  const auto args = panel_args(matrix, panel_index, x, product, next_panel);
  if (matrix.shape().is_exact) {
    HWY_DYNAMIC_DISPATCH(exact_product_f32)(args);
  } else {
    HWY_DYNAMIC_DISPATCH(panel_product_f32)(args);
  }
}

void project(const PackedMatrix& matrix, const Activations<std::uint16_t>& x, float* y,
             ThreadPool& pool) {
  project_any(matrix, x, y, pool);
}

void project(const PackedMatrix& matrix, const Activations<float>& x, float* y, ThreadPool& pool) {
  project_any(matrix, x, y, pool);
}

const char* projection_target() {
  return panel_product_avx512bf16() != nullptr ? "AVX512_BF16"
                                               : HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
