#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/engram_layer_cpu.cpp"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

#include "kernels/engram_layer_cpu.hpp"
#include "kernels/vector_io-inl.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "kernels/gate.hpp"
#include "kernels/ple_elementwise_cpu.hpp"
#include "kernels/step_tiles_cpu.hpp"

HWY_BEFORE_NAMESPACE();
namespace ple::kernels::HWY_NAMESPACE {

constexpr std::int64_t kBlockLength = 32;

// The nearest E4M3 of values up to 448, in f32: adding and taking away 1.5 * 2^23 times the step
// between codes rounds to that step.
HWY_INLINE Vector rounded_to_e4m3(Vector x) {
  const F32 f32;
  const U32 u32;
  const auto exponent_bits = hn::And(hn::BitCast(u32, x), hn::Set(u32, 0x7F800000U));
  const Vector least_normal = hn::Set(f32, 0x1p-6F);
  const Vector power = hn::Max(hn::BitCast(f32, exponent_bits), least_normal);
  const Vector shift = hn::Mul(power, hn::Set(f32, 0x1.8p20F));
  return hn::Sub(hn::Add(x, shift), shift);
}

void quantize_block(std::uint16_t* values) {
  const F32 f32;
  Vector most = hn::Set(f32, 1e-4F);
  for_each_vector(kBlockLength, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    most = hn::Max(most, hn::Abs(load(values + i, lanes)));
  });
  const float ratio = hn::GetLane(hn::MaxOfLanes(f32, most)) * (1.0F / 448.0F);
  // The power of two at or above the ratio: its exponent, and one more if any fraction bit is set.
  const std::uint32_t power = (std::bit_cast<std::uint32_t>(ratio) + 0x7FFFFF) & 0x7F800000;
  const Vector scale = hn::Set(f32, std::bit_cast<float>(power));
  for_each_vector(kBlockLength, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector code = rounded_to_e4m3(hn::Div(load(values + i, lanes), scale));
    store(hn::Mul(code, scale), values + i, lanes);
  });
}

void quantize_blocks(std::uint16_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; i += kBlockLength) quantize_block(values + i);
}

void round_in_place(float* values, std::int64_t count) {
  for_each_vector(count, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    store(rounded_to_bf16(load(values + i, lanes)), values + i, lanes);
  });
}

// One token and stream; highway null: only what is added.
template <class Residual>
void add_gated(const float* values, float gate, const Residual* highway, Residual* output,
               std::int32_t hidden) {
  const Vector factor = hn::Set(F32(), gate);
  for_each_vector(hidden, [&](std::int64_t i, std::size_t lanes) HWY_ATTR {
    const Vector added = hn::Mul(factor, load(values + i, lanes));
    const Vector sum = highway == nullptr ? added : hn::Add(load(highway + i, lanes), added);
    store(sum, output + i, lanes);
  });
}

void add_gated_f32(const float* values, float gate, const float* highway, float* output,
                   std::int32_t hidden) {
  add_gated(values, gate, highway, output, hidden);
}

void add_gated_bf16(const float* values, float gate, const std::uint16_t* highway,
                    std::uint16_t* output, std::int32_t hidden) {
  add_gated(values, gate, highway, output, hidden);
}

}  // namespace ple::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ple::kernels {

HWY_EXPORT(quantize_blocks);
HWY_EXPORT(round_in_place);
HWY_EXPORT(add_gated_f32);
HWY_EXPORT(add_gated_bf16);

namespace {

class EngramStep {
 public:
  EngramStep(const EngramLayerArgs& args, const EngramWeightsCpu& weights, ScratchParts& scratch)
      : args_(args),
        weights_(weights),
        x_({.rows = args.rows,
            .slots = args.slots,
            .column_count = args.shape.column_count,
            .stride = line_stride(args.shape.embed_dim),
            .capacity = TokenTile::capacity(args.token_count)},
           scratch) {
    const std::int64_t tile_length = TokenTile::capacity(args.token_count);
    values_ = scratch.take<float>(tile_length * args.shape.hidden);
    sums_ = scratch.take<GateSums>(tile_length * sums_stride());
  }

  void run(ThreadPool& pool) const {
    TokenTile::for_each(args_.token_count, [&](TokenTile tile) {
      x_.gather(tile, pool);
      if (args_.rounding.quantizes_rows) {
        pool.parallel_for(tile.token_count, [&](std::int64_t t) {
          quantize_e4m3_blocks(x_.token(t), args_.shape.embed_dim);
        });
      }
      project_blocks(weights_.key_value(), x_.tokens(0, tile.token_count), pool,
                     [&](const ProductBlock& block) { take_product(tile, block); });
      pool.parallel_for(
          std::int64_t{tile.token_count} * args_.shape.stream_count, [&](std::int64_t i) {
            const auto index = static_cast<std::int32_t>(i);
            inject(tile, index / args_.shape.stream_count, index % args_.shape.stream_count);
          });
    });
  }

 private:
  std::int32_t panels_of_a_stream() const {
    return (args_.shape.hidden + kPanelRows - 1) / kPanelRows;
  }
  std::int64_t sums_stride() const {
    return std::int64_t{args_.shape.stream_count} * panels_of_a_stream();
  }
  // Bytes of the highway or the output before (token, channel).
  std::int64_t offset_of(std::int64_t token, std::int64_t channel) const {
    const std::int64_t channels = std::int64_t{args_.shape.stream_count} * args_.shape.hidden;
    return (token * channels + channel) * (args_.highway_type == HighwayType::f32 ? 4 : 2);
  }

  // Keys are used up for the gate's sums, values are kept.
  void take_product(TokenTile tile, const ProductBlock& block) const {
    const PackedMatrix& matrix = weights_.key_value();
    if (args_.rounding.rounds_product) {
      HWY_DYNAMIC_DISPATCH(round_in_place)
      (block.product, std::int64_t{block.token_count} * kPanelRows);
    }
    const std::int64_t channel = matrix.panel_row(block.panel_index);
    const std::int32_t row_count = matrix.panel_rows(block.panel_index);
    const std::int64_t key_count = std::int64_t{args_.shape.stream_count} * args_.shape.hidden;
    if (channel >= key_count) {
      for (std::int32_t t = 0; t < block.token_count; ++t) {
        std::copy_n(block.product + t * kPanelRows, row_count,
                    values_ + (block.token_begin + t) * args_.shape.hidden + (channel - key_count));
      }
      return;
    }
    gate_sums({.keys = block.product,
               .gate_scale = weights_.gate_scale() + channel,
               .highway = static_cast<const std::byte*>(args_.highway) +
                          offset_of(tile.token_begin + block.token_begin, channel),
               .highway_type = args_.highway_type,
               .sums = sums_ + block.token_begin * sums_stride() + block.panel_index,
               .key_stride = kPanelRows,
               .highway_stride = key_count,
               .sums_stride = sums_stride(),
               .token_count = block.token_count,
               .row_count = row_count});
  }

  void inject(TokenTile tile, std::int32_t tile_token, std::int32_t stream) const {
    const std::int32_t hidden = args_.shape.hidden;
    const std::int64_t token = tile.token_begin + tile_token;
    const std::int64_t offset = offset_of(token, std::int64_t{stream} * hidden);
    const bool is_update = args_.output_mode == OutputMode::update;
    const std::byte* highway =
        is_update ? static_cast<const std::byte*>(args_.highway) + offset : nullptr;
    std::byte* output = static_cast<std::byte*>(args_.output) + offset;
    if (args_.dead != nullptr && args_.dead[token] != 0) {
      const auto bytes =
          static_cast<std::size_t>(hidden) * (args_.highway_type == HighwayType::f32 ? 4 : 2);
      if (highway == nullptr) {
        std::memset(output, 0, bytes);
      } else if (highway != output) {
        std::memcpy(output, highway, bytes);
      }
      return;
    }
    const std::int32_t panels = panels_of_a_stream();
    const float gate = signed_gate_of_score(gate_score(
        sums_ + tile_token * sums_stride() + stream * panels, panels, hidden, args_.shape.eps));
    const float* values = values_ + std::int64_t{tile_token} * hidden;
    if (args_.highway_type == HighwayType::f32) {
      HWY_DYNAMIC_DISPATCH(add_gated_f32)
      (values, gate, reinterpret_cast<const float*>(highway), reinterpret_cast<float*>(output),
       hidden);
    } else {
      HWY_DYNAMIC_DISPATCH(add_gated_bf16)
      (values, gate, reinterpret_cast<const std::uint16_t*>(highway),
       reinterpret_cast<std::uint16_t*>(output), hidden);
    }
  }

  const EngramLayerArgs& args_;
  const EngramWeightsCpu& weights_;
  const GatheredTile x_;
  float* values_;   // [tile, hidden]
  GateSums* sums_;  // [tile, stream_count, panels of a stream]
};

Status check(const EngramLayerArgs& args, const EngramWeightsCpu& weights) {
  const EngramShape& shape = args.shape;
  const PackedMatrix::Shape& matrix = weights.key_value().shape();
  if (matrix.group_rows == shape.hidden && matrix.group_count == shape.stream_count + 1 &&
      matrix.inner_count == shape.embed_dim &&
      std::int64_t{shape.column_count} * args.rows.encoding.dim == shape.embed_dim) {
    return {};
  }
  return error(StatusCode::invalid_argument,
               "a step of hidden {}, {} streams and {} rows of {} elements, with weights of {} "
               "groups of [{}, {}]",
               shape.hidden, shape.stream_count, shape.column_count, args.rows.encoding.dim,
               matrix.group_count, matrix.group_rows, matrix.inner_count);
}

}  // namespace

Result<EngramWeightsCpu> EngramWeightsCpu::create(const EngramShape& shape, EngramRounding rounding,
                                                  std::span<const std::uint16_t> query_weight,
                                                  std::span<const std::uint16_t> key_weight,
                                                  bool is_e4m3) {
  EngramWeightsCpu weights;
  PLE_TRY_ASSIGN(weights.key_value_,
                 PackedMatrix::allocate({.group_count = shape.stream_count + 1,
                                         .group_rows = shape.hidden,
                                         .inner_count = shape.embed_dim,
                                         .block_count = rounding.rounds_product ? kScaleBlock : 0,
                                         .is_e4m3 = is_e4m3}));
  PLE_TRY_ASSIGN(weights.gate_scale_, AlignedBuffer::allocate(query_weight.size() * sizeof(float)));
  for (std::size_t i = 0; i < query_weight.size(); ++i) {
    weights.gate_scale_.as<float>()[i] = bf16_to_f32(query_weight[i]) * bf16_to_f32(key_weight[i]);
  }
  return weights;
}

std::size_t engram_layer_scratch_bytes_cpu(const EngramShape& shape, std::int32_t token_count) {
  ScratchParts parts(nullptr);
  EngramLayerArgs args;
  args.shape = shape;
  args.token_count = token_count;
  EngramStep(args, EngramWeightsCpu(), parts);
  return parts.bytes();
}

Status engram_layer_cpu(const EngramLayerArgs& args, const EngramWeightsCpu& weights,
                        ThreadPool& pool) {
  PLE_TRY(check(args, weights));
  ScratchParts parts(args.scratch);
  EngramStep(args, weights, parts).run(pool);
  return {};
}

void quantize_e4m3_blocks(std::uint16_t* values, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(quantize_blocks)(values, count);
}

}  // namespace ple::kernels
#endif  // HWY_ONCE
