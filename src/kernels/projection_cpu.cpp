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
  float* product = args.product + std::int64_t{token_begin} * kPanelRows + row_begin;
  const bool is_summed_further = args.is_continued && args.is_one_block;
  const bool is_added = !is_summed_further && (args.is_continued || pair_begin != 0);
  Vector sum[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) {
      sum[t][v] =
          is_summed_further ? hn::LoadU(f32, product + t * kPanelRows + v * lanes) : hn::Zero(f32);
    }
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
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = product + t * kPanelRows + v * lanes;
      hn::StoreU(is_added ? hn::Add(hn::LoadU(f32, to), sum[t][v]) : sum[t][v], f32, to);
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
      shape.block_count < 0 || shape.block_count % 2 != 0 ||
      (shape.is_e4m3 &&
       (shape.is_exact || shape.group_rows % kScaleBlock != 0 ||
        shape.inner_count % kScaleBlock != 0 || shape.block_count % kScaleBlock != 0))) {
    return error(StatusCode::invalid_argument,
                 "a matrix of {} x {} rows of {} elements in blocks of {}", shape.group_count,
                 shape.group_rows, shape.inner_count, shape.block_count);
  }
  PackedMatrix matrix;
  matrix.shape_ = shape;
  const std::int64_t panel_bytes =
      shape.is_e4m3 ? matrix.e4m3_panel_bytes() : matrix.panel_length() * 2;
  const std::int64_t bytes = matrix.panel_count() * panel_bytes;
  PLE_TRY_ASSIGN(matrix.data_, AlignedBuffer::allocate(static_cast<std::size_t>(bytes)));
  return matrix;
}

Status PackedMatrix::check_rows(std::int64_t row_begin, std::int64_t row_count_) const {
  if (row_begin >= 0 && row_count_ >= 0 && row_begin <= row_count() - row_count_) return {};
  return error(StatusCode::invalid_argument, "rows {} to {} of a matrix of {} rows", row_begin,
               row_begin + row_count_, row_count());
}

namespace {

// One row of a panel; to: of its first pair.
template <class Element>
void pack_row(const Element* from, std::int32_t inner_count, Element* to) {
  for (std::int32_t k = 0; k < inner_count; ++k) {
    to[std::int64_t{k / 2} * PackedMatrix::kPanelRows * 2 + k % 2] = from[k];
  }
}

}  // namespace

Status PackedMatrix::pack_rows(std::int64_t row_begin, std::int64_t row_count_,
                               const std::uint16_t* rows) {
  PLE_TRY(check_rows(row_begin, row_count_));
  for (std::int64_t i = 0; i < row_count_; ++i) {
    const PanelRow at = panel_row_of(row_begin + i);
    pack_row(rows + i * shape_.inner_count, shape_.inner_count,
             data_.as<std::uint16_t>() + at.panel_index * panel_length() + at.row * 2);
  }
  return {};
}

Status PackedMatrix::pack_e4m3_rows(std::int64_t row_begin, std::int64_t row_count_,
                                    const std::uint8_t* codes, const std::uint8_t* scales) {
  PLE_TRY(check_rows(row_begin, row_count_));
  const std::int64_t width = shape_.inner_count;
  const std::int64_t blocks = width / kScaleBlock;
  for (std::int64_t i = 0; i < row_count_; ++i) {
    const std::int64_t row = row_begin + i;
    const std::uint8_t* row_codes = codes + i * width;
    const std::uint8_t* row_scales = scales + row / kScaleBlock * blocks;
    if (!std::all_of(row_codes, row_codes + width, is_plain_e4m3) ||
        !std::all_of(row_scales, row_scales + blocks, is_plain_scale)) {
      return error(StatusCode::unsupported, "row {} has values that are not normal in bf16", row);
    }
    const PanelRow at = panel_row_of(row);
    std::uint8_t* panel = data_.as<std::uint8_t>() + at.panel_index * e4m3_panel_bytes();
    pack_row(row_codes, shape_.inner_count, panel + at.row * 2);
    for (std::int64_t block = 0; block < blocks; ++block) {
      panel[panel_length() + block * 2 + at.row / kScaleBlock] = row_scales[block];
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
          .token_count = x.token_count,
          .is_one_block = matrix.shape().block_count == 0};
}

void multiply(const PanelProductArgs<std::uint16_t>& args) {
  static const PanelProductBf16 native = panel_product_avx512bf16();
  if (native != nullptr) {
    native(args);
  } else {
    HWY_DYNAMIC_DISPATCH(panel_product_bf16)(args);
  }
}
void multiply(const PanelProductArgs<float>& args) {
  HWY_DYNAMIC_DISPATCH(panel_product_f32)(args);
}

// Some pairs of a panel; both in whole blocks of scales.
void decode(const E4m3Panel& panel, std::int32_t pair_begin, std::int32_t pair_count,
            DecodeE4m3Block decode_block, std::uint16_t* out) {
  constexpr std::int32_t kPairLength = 2 * PackedMatrix::kPanelRows;
  constexpr std::int32_t kBlockPairs = kScaleBlock / 2;
  const std::uint8_t* codes = panel.codes + std::int64_t{pair_begin} * kPairLength;
  const std::uint8_t* scale = panel.scales + pair_begin / kBlockPairs * 2;
  for (std::int32_t pair = 0; pair < pair_count; pair += kBlockPairs) {
    for (int half = 0; half < 2; ++half) {
      const std::int64_t at = std::int64_t{pair} * kPairLength + half * 2 * kScaleBlock;
      decode_block(codes + at, *scale++, out + at);
    }
  }
}

// The decoder that goes with the product of such activations.
DecodeE4m3Block decoder_for(const std::uint16_t*) {
  static const DecodeE4m3Block native = decode_e4m3_block_avx512vbmi();
  return native != nullptr ? native : decode_e4m3_block;
}
DecodeE4m3Block decoder_for(const float*) { return decode_e4m3_block; }

// The whole panel, of which some pairs at a time are decoded.
template <class Element>
void multiply_e4m3(const PackedMatrix& matrix, std::int32_t panel_index,
                   PanelProductArgs<Element> args) {
  // Of few tokens the codes set the pace, of many the activations, which are read in long
  // stretches.
  constexpr std::int32_t kFewTokens = 16;
  constexpr std::int32_t kFewPairs = 64;
  constexpr std::int32_t kManyPairs = 512;
  alignas(64) std::uint16_t decoded[kManyPairs * PackedMatrix::kPanelRows * 2];
  const std::int32_t pairs_max = args.token_count <= kFewTokens ? kFewPairs : kManyPairs;
  const E4m3Panel panel = matrix.e4m3_panel(panel_index);
  args.panel = decoded;
  for (std::int32_t pair = 0; pair < matrix.pair_count(); pair += pairs_max) {
    args.pair_count = std::min(pairs_max, matrix.pair_count() - pair);
    args.is_continued = pair != 0;
    args.next_panel = reinterpret_cast<const std::uint16_t*>(
        panel.codes + std::int64_t{pair + args.pair_count} * PackedMatrix::kPanelRows * 2);
    decode(panel, pair, args.pair_count, decoder_for(args.x), decoded);
    multiply(args);
    args.x += 2 * args.pair_count;
  }
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
  const auto args = panel_args(matrix, panel_index, x, product, next_panel);
  if (matrix.shape().is_exact) {
    HWY_DYNAMIC_DISPATCH(exact_product_bf16)(args);
  } else if (matrix.shape().is_e4m3) {
    multiply_e4m3(matrix, panel_index, args);
  } else {
    multiply(args);
  }
}

void project_panel(const PackedMatrix& matrix, std::int32_t panel_index,
                   const Activations<float>& x, float* product, const std::uint16_t* next_panel) {
  const auto args = panel_args(matrix, panel_index, x, product, next_panel);
  if (matrix.shape().is_exact) {
    HWY_DYNAMIC_DISPATCH(exact_product_f32)(args);
  } else if (matrix.shape().is_e4m3) {
    multiply_e4m3(matrix, panel_index, args);
  } else {
    multiply(args);
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
