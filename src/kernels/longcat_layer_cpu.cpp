#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/longcat_layer_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/longcat_layer_cpu.hpp"
#include "kernels/vector_io-inl.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "kernels/step_tiles_cpu.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

// sum[i] += product[i]; where rounds_each, both the product and the sum are rounded.
void add_product(const float* product, bool rounds_each, float* sum, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector added = load(product + i, lanes);
    const Vector before = load(sum + i, lanes);
    const Vector after = rounds_each ? rounded_to_bf16(hn::Add(before, rounded_to_bf16(added)))
                                     : hn::Add(before, added);
    store(after, sum + i, lanes);
  });
}

template <class Element>
void divide(const float* sum, float divisor, Element* output, std::int64_t count) {
  const Vector by = hn::Set(F32(), divisor);
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    store(hn::Div(load(sum + i, lanes), by), output + i, lanes);
  });
}

void widen(const std::uint16_t* from, float* to, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes)
                             HWY_ATTR { store(load(from + i, lanes), to + i, lanes); });
}

void divide_f32(const float* sum, float divisor, float* output, std::int64_t count) {
  divide(sum, divisor, output, count);
}

void divide_bf16(const float* sum, float divisor, std::uint16_t* output, std::int64_t count) {
  divide(sum, divisor, output, count);
}

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(add_product);
HWY_EXPORT(widen);
HWY_EXPORT(divide_f32);
HWY_EXPORT(divide_bf16);

namespace {

class LongcatStep {
 public:
  LongcatStep(const LongcatLayerArgs& args, const LongcatWeightsCpu& weights, ScratchParts& scratch)
      : args_(args),
        weights_(weights),
        // A row of each table begins at an even element, as the products want it.
        x_({.rows = args.rows,
            .slots = args.slots,
            .column_count = 1,
            .stride = (args.shape.row_dim + 1) / 2 * 2,
            .capacity = std::int64_t{TokenTile::capacity(args.token_count)} * tables()},
           scratch) {}

  void run(ThreadPool& pool) const {
    TokenTile::for_each(args_.token_count, [&](TokenTile tile) {
      x_.gather({tile.token_begin * tables(), tile.token_count * tables()}, pool);
      pool.parallel_for(panel_count(), [&](std::int64_t panel_index) {
        for (std::int32_t begin = 0; begin < tile.token_count; begin += kProductTokens) {
          const std::int32_t count = std::min(kProductTokens, tile.token_count - begin);
          fuse(static_cast<std::int32_t>(panel_index), tile, begin, count);
        }
      });
    });
  }

 private:
  std::int32_t tables() const { return args_.shape.table_count; }
  std::int64_t panel_count() const { return (args_.shape.hidden + kPanelRows - 1) / kPanelRows; }

  // The rows of tokens [begin, begin + count) of the tile in one table.
  Activations<std::uint16_t> rows_of(std::int32_t table, std::int32_t begin,
                                     std::int32_t count) const {
    const Activations<std::uint16_t> row = x_.tokens(std::int64_t{begin} * tables() + table, 1);
    return {row.data, row.stride * tables(), count};
  }

  // One panel of channels of some tokens, from words to output.
  void fuse(std::int32_t panel_index, TokenTile tile, std::int32_t begin,
            std::int32_t count) const {
    alignas(kLineBytes) float sum[kProductTokens * kPanelRows];
    alignas(kLineBytes) float product[kProductTokens * kPanelRows];
    const PackedMatrix& first = weights_.projections().front();
    const std::int64_t channel = first.panel_row(panel_index);
    const std::int32_t row_count = first.panel_rows(panel_index);
    for (std::int32_t t = 0; t < count; ++t) {
      HWY_DYNAMIC_DISPATCH(widen)
      (word(tile.token_begin + begin + t) + channel, sum + t * kPanelRows, row_count);
    }
    for (std::int32_t table = 0; table < tables(); ++table) {
      const std::uint16_t* next =
          table + 1 < tables()
              ? weights_.projections()[static_cast<std::size_t>(table + 1)].panel(panel_index)
              : nullptr;
      project_panel(weights_.projections()[static_cast<std::size_t>(table)], panel_index,
                    rows_of(table, begin, count), product, begin == 0 ? next : nullptr);
      HWY_DYNAMIC_DISPATCH(add_product)
      (product, args_.rounds_each, sum, std::int64_t{count} * kPanelRows);
    }
    for (std::int32_t t = 0; t < count; ++t) {
      const std::int64_t token = tile.token_begin + begin + t;
      if (args_.ignored[token] != 0) {
        HWY_DYNAMIC_DISPATCH(widen)(word(token) + channel, sum + t * kPanelRows, row_count);
      }
      const float divisor = args_.ignored[token] != 0 ? 1.0F : static_cast<float>(1 + tables());
      store(sum + t * kPanelRows, divisor, token * args_.shape.hidden + channel, row_count);
    }
  }

  void store(const float* sum, float divisor, std::int64_t index, std::int32_t count) const {
    if (args_.output_type == HighwayType::f32) {
      HWY_DYNAMIC_DISPATCH(divide_f32)
      (sum, divisor, static_cast<float*>(args_.output) + index, count);
    } else {
      HWY_DYNAMIC_DISPATCH(divide_bf16)
      (sum, divisor, static_cast<std::uint16_t*>(args_.output) + index, count);
    }
  }

  const std::uint16_t* word(std::int64_t token) const {
    return weights_.words() + std::int64_t{args_.tokens[token]} * args_.shape.hidden;
  }

  const LongcatLayerArgs& args_;
  const LongcatWeightsCpu& weights_;
  const GatheredTile x_;  // its tokens are (token, table)
};

Status check(const LongcatLayerArgs& args, const LongcatWeightsCpu& weights) {
  const LongcatShape& shape = args.shape;
  const auto& projections = weights.projections();
  if (static_cast<std::int32_t>(projections.size()) != shape.table_count || projections.empty() ||
      projections.front().row_count() != shape.hidden ||
      projections.front().shape().inner_count != shape.row_dim ||
      args.rows.encoding.dim != shape.row_dim) {
    return error(StatusCode::invalid_argument,
                 "a step of hidden {} and {} rows of {} elements, with {} projections of another "
                 "shape",
                 shape.hidden, shape.table_count, args.rows.encoding.dim, projections.size());
  }
  for (std::int32_t t = 0; t < args.token_count; ++t) {
    if (args.tokens[t] < 0 || args.tokens[t] >= shape.vocab_size) {
      return error(StatusCode::invalid_argument, "token {} is {}, outside [0, {})", t,
                   args.tokens[t], shape.vocab_size);
    }
  }
  return {};
}

}  // namespace

Result<LongcatWeightsCpu> LongcatWeightsCpu::create(const LongcatShape& shape, bool rounds_each) {
  LongcatWeightsCpu weights;
  for (std::int32_t i = 0; i < shape.table_count; ++i) {
    PLE_TRY_ASSIGN(PackedMatrix projection, PackedMatrix::allocate({.group_rows = shape.hidden,
                                                                    .inner_count = shape.row_dim,
                                                                    .is_exact = rounds_each}));
    weights.projections_.push_back(std::move(projection));
  }
  PLE_TRY_ASSIGN(weights.words_,
                 AlignedBuffer::allocate(static_cast<std::size_t>(shape.vocab_size) *
                                         static_cast<std::size_t>(shape.hidden) * 2));
  return weights;
}

std::size_t longcat_layer_scratch_bytes_cpu(const LongcatShape& shape, std::int32_t token_count) {
  ScratchParts parts(nullptr);
  LongcatLayerArgs args;
  args.shape = shape;
  args.token_count = token_count;
  LongcatStep(args, LongcatWeightsCpu(), parts);
  return parts.bytes();
}

Status longcat_layer_cpu(const LongcatLayerArgs& args, const LongcatWeightsCpu& weights,
                         ThreadPool& pool) {
  PLE_TRY(check(args, weights));
  ScratchParts parts(args.scratch);
  LongcatStep(args, weights, parts).run(pool);
  return {};
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
