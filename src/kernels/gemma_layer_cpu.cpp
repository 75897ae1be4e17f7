#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemma_layer_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/gemma_layer_cpu.hpp"
#include "kernels/vector_io-inl.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "kernels/step_tiles_cpu.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

template <bool kRounds>
HWY_INLINE Vector round_in(Vector x) {
  return kRounds ? rounded_to_bf16(x) : x;
}

// One token and layer: its product, its part of the row and the norm's weight, each [layer_dim].
template <bool kRounds, class Element>
void combine(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
             const float* weight, Element* output) {
  const F32 f32;
  const std::int32_t count = args.shape.layer_dim;
  const Vector projection_scale = hn::Set(f32, args.scales.projection);
  const auto context = [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    return round_in<kRounds>(
        hn::Mul(round_in<kRounds>(load(product + i, lanes)), projection_scale));
  };
  Vector squares = hn::Zero(f32);
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector x = context(i, lanes);
    squares = hn::MulAdd(x, x, squares);
  });
  const float mean = sum_of_lanes(squares) / static_cast<float>(count);
  const Vector root = hn::Set(f32, 1.0F / std::sqrt(mean + args.shape.eps));
  const Vector row_scale = hn::Set(f32, args.scales.row);
  const Vector sum_scale = hn::Set(f32, args.scales.sum);
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector normed =
        round_in<kRounds>(hn::Mul(hn::Mul(context(i, lanes), root), load(weight + i, lanes)));
    const Vector scaled = round_in<kRounds>(hn::Mul(load(row + i, lanes), row_scale));
    store(hn::Mul(round_in<kRounds>(hn::Add(normed, scaled)), sum_scale), output + i, lanes);
  });
}

template <class Element>
void combine_any(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
                 const float* weight, Element* output) {
  if (args.rounds_each) return combine<true>(args, product, row, weight, output);
  combine<false>(args, product, row, weight, output);
}

void combine_f32(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
                 const float* weight, float* output) {
  combine_any(args, product, row, weight, output);
}

void combine_bf16(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
                  const float* weight, std::uint16_t* output) {
  combine_any(args, product, row, weight, output);
}

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(combine_f32);
HWY_EXPORT(combine_bf16);

namespace {

void combine_layer(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
                   const float* weight, float* output) {
  HWY_DYNAMIC_DISPATCH(combine_f32)(args, product, row, weight, output);
}

void combine_layer(const GemmaLayerArgs& args, const float* product, const std::uint16_t* row,
                   const float* weight, std::uint16_t* output) {
  HWY_DYNAMIC_DISPATCH(combine_bf16)(args, product, row, weight, output);
}

// Element: of input and output.
template <class Element>
class GemmaStep {
 public:
  GemmaStep(const GemmaLayerArgs& args, const GemmaWeightsCpu& weights, ScratchParts& scratch)
      : args_(args),
        weights_(weights),
        rows_({.rows = args.rows,
               .slots = args.slots,
               .column_count = 1,
               .stride = line_stride(width()),
               .capacity = TokenTile::capacity(args.token_count)},
              scratch) {
    const std::int64_t tile_length = TokenTile::capacity(args.token_count);
    products_ = scratch.take<float>(tile_length * width());
    padded_ = scratch.take<Element>(tile_length * padded_stride());
  }

  void run(ThreadPool& pool) const {
    TokenTile::for_each(args_.token_count, [&](TokenTile tile) {
      rows_.gather(tile, pool);
      project_blocks(weights_.projection(), activations(tile), pool,
                     [&](const ProductBlock& block) { keep(block); });
      pool.parallel_for(std::int64_t{tile.token_count} * args_.shape.layer_count,
                        [&](std::int64_t i) {
                          combine(tile, i / args_.shape.layer_count, i % args_.shape.layer_count);
                        });
    });
  }

 private:
  std::int64_t width() const {
    return std::int64_t{args_.shape.layer_count} * args_.shape.layer_dim;
  }
  std::int64_t padded_stride() const { return (args_.shape.hidden + 1) / 2 * 2; }

  // The input in place, or padded where its rows are odd.
  Activations<Element> activations(TokenTile tile) const {
    const std::int64_t hidden = args_.shape.hidden;
    const Element* input = static_cast<const Element*>(args_.input) + tile.token_begin * hidden;
    if (hidden == padded_stride()) return {input, hidden, tile.token_count};
    for (std::int64_t t = 0; t < tile.token_count; ++t) {
      Element* row = padded_ + t * padded_stride();
      row[hidden] = 0;
      std::copy_n(input + t * hidden, hidden, row);
    }
    return {padded_, padded_stride(), tile.token_count};
  }

  void keep(const ProductBlock& block) const {
    const PackedMatrix& matrix = weights_.projection();
    for (std::int32_t t = 0; t < block.token_count; ++t) {
      std::copy_n(
          block.product + t * kPanelRows, matrix.panel_rows(block.panel_index),
          products_ + (block.token_begin + t) * width() + matrix.panel_row(block.panel_index));
    }
  }

  void combine(TokenTile tile, std::int64_t tile_token, std::int64_t layer) const {
    const std::int64_t begin = layer * args_.shape.layer_dim;
    const std::int64_t token = tile.token_begin + tile_token;
    combine_layer(args_, products_ + tile_token * width() + begin, rows_.token(tile_token) + begin,
                  weights_.norm_weight(),
                  static_cast<Element*>(args_.output) + token * width() + begin);
  }

  const GemmaLayerArgs& args_;
  const GemmaWeightsCpu& weights_;
  const GatheredTile rows_;
  float* products_;  // [tile, layer_count, layer_dim]
  Element* padded_;  // [tile, padded_stride]
};

Status check(const GemmaLayerArgs& args, const GemmaWeightsCpu& weights) {
  const GemmaShape& shape = args.shape;
  const PackedMatrix::Shape& matrix = weights.projection().shape();
  if (matrix.group_count == shape.layer_count && matrix.group_rows == shape.layer_dim &&
      matrix.inner_count == shape.hidden &&
      std::int64_t{shape.layer_count} * shape.layer_dim == args.rows.encoding.dim) {
    return {};
  }
  return error(StatusCode::invalid_argument,
               "a step of hidden {}, {} layers of {} and rows of {} elements, with weights of {} "
               "groups of [{}, {}]",
               shape.hidden, shape.layer_count, shape.layer_dim, args.rows.encoding.dim,
               matrix.group_count, matrix.group_rows, matrix.inner_count);
}

}  // namespace

Result<GemmaWeightsCpu> GemmaWeightsCpu::create(const GemmaShape& shape, bool rounds_each,
                                                std::span<const std::uint16_t> norm_weight) {
  GemmaWeightsCpu weights;
  PLE_TRY_ASSIGN(weights.projection_, PackedMatrix::allocate({.group_count = shape.layer_count,
                                                              .group_rows = shape.layer_dim,
                                                              .inner_count = shape.hidden,
                                                              .is_exact = rounds_each}));
  PLE_TRY_ASSIGN(weights.norm_weight_, AlignedBuffer::allocate(norm_weight.size() * sizeof(float)));
  std::transform(norm_weight.begin(), norm_weight.end(), weights.norm_weight_.as<float>(),
                 bf16_to_f32);
  return weights;
}

std::size_t gemma_layer_scratch_bytes_cpu(const GemmaShape& shape, std::int32_t token_count) {
  ScratchParts parts(nullptr);
  GemmaLayerArgs args;
  args.shape = shape;
  args.token_count = token_count;
  GemmaStep<float>(args, GemmaWeightsCpu(), parts);
  return parts.bytes();
}

Status gemma_layer_cpu(const GemmaLayerArgs& args, const GemmaWeightsCpu& weights,
                       ThreadPool& pool) {
  PLE_TRY(check(args, weights));
  ScratchParts parts(args.scratch);
  if (args.type == HighwayType::f32) {
    GemmaStep<float>(args, weights, parts).run(pool);
  } else {
    GemmaStep<std::uint16_t>(args, weights, parts).run(pool);
  }
  return {};
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
