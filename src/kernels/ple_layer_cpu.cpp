#include "kernels/ple_layer_cpu.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.hpp"
#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "kernels/gate.hpp"
#include "kernels/gather_rows.hpp"
#include "kernels/ple_elementwise_cpu.hpp"

namespace ple::kernels {

namespace {

constexpr std::int32_t kPanelRows = PackedMatrix::kPanelRows;
constexpr std::int32_t kTileTokens = 192;    // tokens of one pass over the weights
constexpr std::int32_t kProductTokens = 48;  // tokens of a panel's product that stay in the L1
constexpr std::int32_t kGatherTokens = 16;   // tokens that one task gathers
constexpr std::int32_t kTapCountMax = 16;
constexpr std::size_t kLineBytes = 64;

std::size_t value_element_bytes(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::float32 ? sizeof(float) : sizeof(std::uint16_t);
}

std::int64_t x_stride_of(const PleShape& shape) { return (shape.embed_dim + 31) / 32 * 32; }

std::int32_t panels_of(std::int32_t rows) { return (rows + kPanelRows - 1) / kPanelRows; }

// Hands out parts of the scratch memory one after the other; counts only where there is none.
class ScratchParts {
 public:
  explicit ScratchParts(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t offset = bytes_;
    bytes_ +=
        (static_cast<std::size_t>(count) * sizeof(T) + kLineBytes - 1) / kLineBytes * kLineBytes;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + offset);
  }

  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  std::size_t bytes_ = 0;
};

// The tensors between the operators of a step.
struct Intermediates {
  Intermediates(const PleShape& shape, Arithmetic arithmetic, std::int32_t token_count,
                std::byte* scratch) {
    ScratchParts parts(scratch);
    const std::int64_t tile = std::min(token_count, kTileTokens);
    const std::int64_t streams = shape.stream_count;
    values = parts.take<std::byte>(std::int64_t{token_count} * shape.hidden *
                                   static_cast<std::int64_t>(value_element_bytes(arithmetic)));
    scalars = parts.take<float>(token_count * 2 * streams);
    x = parts.take<std::uint16_t>(tile * x_stride_of(shape));
    if (arithmetic == Arithmetic::reference) {
      keys = parts.take<std::uint16_t>(tile * streams * shape.hidden);
    } else {
      sums = parts.take<GateSums>(tile * streams * panels_of(shape.hidden));
    }
    bytes = parts.bytes();
  }

  std::byte* values = nullptr;    // [token_count, hidden] f32, or bf16 but in float32
  float* scalars = nullptr;       // [token_count, 2, stream_count]: gamma, then q
  std::uint16_t* x = nullptr;     // [tile, x_stride] bf16
  std::uint16_t* keys = nullptr;  // reference: [tile, stream_count, hidden] bf16
  GateSums* sums = nullptr;       // otherwise: [tile, stream_count, panels of hidden]
  std::size_t bytes = 0;
};

struct Tile {
  std::int32_t token_begin = 0;
  std::int32_t token_count = 0;
};

// The parts of a step that a rebuild shares: rows to values, and q from values and gamma.
class ValuePass {
 public:
  ValuePass(const PleShape& shape, Arithmetic arithmetic, const RowView& rows, const SlotId* slots,
            std::int32_t token_count, std::byte* scratch, const PleWeightsCpu& weights)
      : shape_(shape),
        arithmetic_(arithmetic),
        rows_(rows),
        slots_(slots),
        weights_(weights),
        between_(shape, arithmetic, token_count, scratch) {}

 protected:
  void gather(Tile tile, ThreadPool& pool) const {
    const std::int32_t task_count = (tile.token_count + kGatherTokens - 1) / kGatherTokens;
    pool.parallel_for(task_count, [&](std::int64_t task) {
      const auto begin = static_cast<std::int32_t>(task) * kGatherTokens;
      gather_rows_cpu(
          {.rows = rows_,
           .slots = slots_ + std::int64_t{tile.token_begin + begin} * shape_.column_count,
           .out = between_.x + begin * x_stride_of(shape_),
           .stride = x_stride_of(shape_),
           .token_count = std::min(kGatherTokens, tile.token_count - begin),
           .column_count = shape_.column_count});
    });
  }

  Activations<std::uint16_t> activations(std::int32_t begin, std::int32_t count) const {
    return {between_.x + begin * x_stride_of(shape_), x_stride_of(shape_), count};
  }

  void value_panel(std::int32_t panel_index, Tile tile) const {
    alignas(kLineBytes) float product[kProductTokens * kPanelRows];
    const std::int32_t row_count = weights_.value().panel_rows(panel_index);
    for (std::int32_t begin = 0; begin < tile.token_count; begin += kProductTokens) {
      const std::int32_t count = std::min(kProductTokens, tile.token_count - begin);
      project_panel(weights_.value(), panel_index, activations(begin, count), product);
      for (std::int32_t t = 0; t < count; ++t) {
        store_values(
            product + t * kPanelRows, row_count,
            std::int64_t{tile.token_begin + begin + t} * shape_.hidden + panel_index * kPanelRows);
      }
    }
  }

  void store_values(const float* from, std::int32_t count, std::int64_t index) const {
    if (arithmetic_ == Arithmetic::float32) {
      std::copy_n(from, count, reinterpret_cast<float*>(between_.values) + index);
    } else {
      round_all_to_bf16(from, reinterpret_cast<std::uint16_t*>(between_.values) + index, count);
    }
  }

  std::size_t value_bytes() const {
    return static_cast<std::size_t>(shape_.hidden) * value_element_bytes(arithmetic_);
  }
  const std::byte* values(std::int32_t token) const {
    return between_.values + static_cast<std::size_t>(token) * value_bytes();
  }
  float* scalars(std::int32_t token) const {
    return between_.scalars + std::int64_t{token} * 2 * shape_.stream_count;
  }

  // q of all streams of a token, from its values and its gamma.
  void conv_roots(std::int32_t token) const {
    const float* gamma = scalars(token);
    float* q = scalars(token) + shape_.stream_count;
    const auto hidden = static_cast<float>(shape_.hidden);
    if (arithmetic_ == Arithmetic::reference) {
      const auto* v = reinterpret_cast<const std::uint16_t*>(values(token));
      for (std::int32_t c = 0; c < shape_.stream_count; ++c) {
        const float mean = reference_gated_square(v, gamma[c], shape_.hidden) / hidden;
        q[c] = 1.0F / std::sqrt(mean + shape_.eps);
      }
    } else {
      const float mean = sum_of_squares(values(token), arithmetic_, shape_.hidden) / hidden;
      for (std::int32_t c = 0; c < shape_.stream_count; ++c) {
        q[c] = 1.0F / std::sqrt(gamma[c] * gamma[c] * mean + shape_.eps);
      }
    }
  }

  void write_ring(std::byte* ring, std::int32_t ring_length, std::int32_t entry,
                  std::int32_t token) const {
    const std::size_t scalar_bytes =
        sizeof(float) * 2 * static_cast<std::size_t>(shape_.stream_count);
    std::byte* ring_scalars = ring + PleRing::value_bytes(shape_, arithmetic_, ring_length);
    std::memcpy(ring + static_cast<std::size_t>(entry) * value_bytes(), values(token),
                value_bytes());
    std::memcpy(ring_scalars + static_cast<std::size_t>(entry) * scalar_bytes, scalars(token),
                scalar_bytes);
  }

  const PleShape& shape_;
  const Arithmetic arithmetic_;
  const RowView& rows_;
  const SlotId* const slots_;
  const PleWeightsCpu& weights_;
  const Intermediates between_;
};

class LayerStep : private ValuePass {
 public:
  LayerStep(const PleLayerArgs& args, const PleWeightsCpu& weights)
      : ValuePass(args.shape, args.arithmetic, args.rows, args.slots, args.token_count,
                  args.scratch, weights),
        args_(args) {}

  void run(ThreadPool& pool) const {
    for (std::int32_t begin = 0; begin < args_.token_count; begin += kTileTokens) {
      const Tile tile{begin, std::min(kTileTokens, args_.token_count - begin)};
      gather(tile, pool);
      const std::int32_t key_panels = weights_.key().panel_count();
      pool.parallel_for(key_panels + weights_.value().panel_count(), [&](std::int64_t index) {
        const auto panel_index = static_cast<std::int32_t>(index);
        if (panel_index < key_panels) {
          key_panel(panel_index, tile);
        } else {
          value_panel(panel_index - key_panels, tile);
        }
      });
      pool.parallel_for(tile.token_count,
                        [&](std::int64_t t) { gates(tile, static_cast<std::int32_t>(t)); });
      pool.parallel_for(std::int64_t{tile.token_count} * shape_.stream_count, [&](std::int64_t i) {
        const auto index = static_cast<std::int32_t>(i);
        inject_token(tile.token_begin + index / shape_.stream_count, index % shape_.stream_count);
      });
    }
    pool.parallel_for(args_.span_count, [&](std::int64_t i) { update_ring(args_.spans[i]); });
  }

 private:
  // Bytes of a highway or output before (token, channel).
  std::int64_t highway_offset(std::int32_t token, std::int64_t channel) const {
    const std::int64_t element_bytes = args_.highway_type == HighwayType::f32 ? 4 : 2;
    return (token * channel_count() + channel) * element_bytes;
  }
  const void* highway(std::int32_t token, std::int64_t channel) const {
    return static_cast<const std::byte*>(args_.highway) + highway_offset(token, channel);
  }
  std::int64_t channel_count() const { return std::int64_t{shape_.stream_count} * shape_.hidden; }

  // The keys of one panel, used up for the gate's sums (or kept, in the reference arithmetic).
  void key_panel(std::int32_t panel_index, Tile tile) const {
    alignas(kLineBytes) float product[kProductTokens * kPanelRows];
    const std::int32_t stream_panels = weights_.key().group_panel_count();
    const std::int64_t channel = std::int64_t{panel_index / stream_panels} * shape_.hidden +
                                 panel_index % stream_panels * kPanelRows;
    const std::int32_t row_count = weights_.key().panel_rows(panel_index);
    for (std::int32_t begin = 0; begin < tile.token_count; begin += kProductTokens) {
      const std::int32_t count = std::min(kProductTokens, tile.token_count - begin);
      project_panel(weights_.key(), panel_index, activations(begin, count), product);
      if (arithmetic_ == Arithmetic::reference) {
        for (std::int32_t t = 0; t < count; ++t) {
          round_all_to_bf16(product + t * kPanelRows,
                            between_.keys + (begin + t) * channel_count() + channel, row_count);
        }
      } else {
        gate_sums({.keys = product,
                   .gate_scale = weights_.gate_scale() + channel,
                   .highway = highway(tile.token_begin + begin, channel),
                   .highway_type = args_.highway_type,
                   .sums = between_.sums + begin * sums_stride() + panel_index,
                   .key_stride = kPanelRows,
                   .highway_stride = channel_count(),
                   .sums_stride = sums_stride(),
                   .token_count = count,
                   .row_count = row_count});
      }
    }
  }
  std::int64_t sums_stride() const { return weights_.key().panel_count(); }

  void gates(Tile tile, std::int32_t tile_token) const {
    const std::int32_t token = tile.token_begin + tile_token;
    for (std::int32_t c = 0; c < shape_.stream_count; ++c) {
      scalars(token)[c] = arithmetic_ == Arithmetic::reference
                              ? reference_gate(token, tile_token, c)
                              : gate(tile_token, c);
    }
    conv_roots(token);
  }

  float gate(std::int32_t tile_token, std::int32_t stream) const {
    const std::int32_t panels = weights_.key().group_panel_count();
    const GateSums* parts = between_.sums + tile_token * sums_stride() + stream * panels;
    GateSums sums;
    for (std::int32_t p = 0; p < panels; ++p) {
      sums.dot += parts[p].dot;
      sums.key_square += parts[p].key_square;
      sums.highway_square += parts[p].highway_square;
    }
    const auto hidden = static_cast<float>(shape_.hidden);
    const float key_root = 1.0F / std::sqrt(sums.key_square / hidden + shape_.eps);
    const float query_root = 1.0F / std::sqrt(sums.highway_square / hidden + shape_.eps);
    return gate_of_score(sums.dot * key_root * query_root / std::sqrt(hidden));
  }

  float reference_gate(std::int32_t token, std::int32_t tile_token, std::int32_t stream) const {
    const std::int64_t channel = std::int64_t{stream} * shape_.hidden;
    const float score =
        reference_score({.key = between_.keys + tile_token * channel_count() + channel,
                         .highway = highway(token, channel),
                         .highway_type = args_.highway_type,
                         .key_scale = weights_.key_scale() + channel,
                         .query_scale = weights_.query_scale() + channel,
                         .hidden = shape_.hidden,
                         .eps = shape_.eps});
    const float magnitude = round_to_bf16(std::max(std::fabs(score), kGateFloor));
    const float root = round_to_bf16(std::sqrt(magnitude));
    return round_to_bf16(sigmoid(with_sign_of(root, score)));
  }

  // The span that holds a token, or null.
  const PleSpan* span_of(std::int32_t token) const {
    const PleSpan* end = args_.spans + args_.span_count;
    const PleSpan* after = std::upper_bound(
        args_.spans, end, token,
        [](std::int32_t index, const PleSpan& span) { return index < span.token_begin; });
    if (after == args_.spans) return nullptr;
    const PleSpan* span = after - 1;
    return token < span->token_begin + span->token_count ? span : nullptr;
  }

  // What a tap reads that lies lag positions before a token of the span.
  TapInput tap_input(const PleSpan& span, std::int32_t token, std::int32_t stream,
                     std::int32_t lag) const {
    const std::int32_t index = token - span.token_begin;
    if (span.position + index < lag) return {};
    if (lag <= index) {
      const float* s = scalars(token - lag);
      return {values(token - lag), s[stream], s[shape_.stream_count + stream]};
    }
    const std::int32_t entry =
        (span.cursor - (lag - index) + args_.ring_length) % args_.ring_length;
    const auto* ring_scalars = reinterpret_cast<const float*>(
        span.ring + PleRing::value_bytes(shape_, arithmetic_, args_.ring_length));
    const float* s = ring_scalars + std::int64_t{entry} * 2 * shape_.stream_count;
    return {span.ring + static_cast<std::size_t>(entry) * value_bytes(), s[stream],
            s[shape_.stream_count + stream]};
  }

  void inject_token(std::int32_t token, std::int32_t stream) const {
    const PleSpan* span = span_of(token);
    if (span == nullptr) return;
    TapInput inputs[kTapCountMax];
    for (std::int32_t k = 0; k < shape_.tap_count; ++k) {
      inputs[k] = tap_input(*span, token, stream, (shape_.tap_count - 1 - k) * shape_.dilation);
    }
    const std::int64_t channel = std::int64_t{stream} * shape_.hidden;
    inject({.arithmetic = arithmetic_,
            .highway_type = args_.highway_type,
            .output_mode = args_.output_mode,
            .highway = highway(token, channel),
            .output = static_cast<std::byte*>(args_.output) + highway_offset(token, channel),
            .inputs = inputs,
            .conv_scale = weights_.conv_scale() + channel,
            .taps = weights_.tap(0) + channel,
            .tap_stride = channel_count(),
            .tap_count = shape_.tap_count,
            .hidden = shape_.hidden});
  }

  void update_ring(const PleSpan& span) const {
    const std::int32_t first = span.token_begin + span.token_count - span.write_count;
    for (std::int32_t i = 0; i < span.write_count; ++i) {
      write_ring(span.ring, args_.ring_length, (span.cursor + i) % args_.ring_length, first + i);
    }
  }

  const PleLayerArgs& args_;
};

class RingRebuild : private ValuePass {
 public:
  RingRebuild(const PleRebuildArgs& args, const PleWeightsCpu& weights)
      : ValuePass(args.shape, args.arithmetic, args.rows, args.slots, args.entry_count,
                  args.scratch, weights),
        args_(args) {}

  void run(ThreadPool& pool) const {
    for (std::int32_t begin = 0; begin < args_.entry_count; begin += kTileTokens) {
      const Tile tile{begin, std::min(kTileTokens, args_.entry_count - begin)};
      gather(tile, pool);
      pool.parallel_for(weights_.value().panel_count(), [&](std::int64_t panel_index) {
        value_panel(static_cast<std::int32_t>(panel_index), tile);
      });
    }
    pool.parallel_for(args_.entry_count, [&](std::int64_t index) {
      const auto entry = static_cast<std::int32_t>(index);
      std::copy_n(args_.gamma + index * shape_.stream_count, shape_.stream_count, scalars(entry));
      conv_roots(entry);
      write_ring(args_.ring, args_.ring_length, (args_.entry_begin + entry) % args_.ring_length,
                 entry);
    });
  }

 private:
  const PleRebuildArgs& args_;
};

Status check_shape(const PleShape& shape, const RowView& rows, std::int32_t ring_length,
                   const PleWeightsCpu& weights) {
  if (weights.value().shape().group_rows != shape.hidden ||
      weights.key().shape().group_count != shape.stream_count ||
      weights.key().shape().inner_count != shape.embed_dim) {
    return error(StatusCode::invalid_argument,
                 "a step of hidden {}, {} streams, width {} with weights of {}, {}, {}",
                 shape.hidden, shape.stream_count, shape.embed_dim,
                 weights.value().shape().group_rows, weights.key().shape().group_count,
                 weights.key().shape().inner_count);
  }
  if (std::int64_t{shape.column_count} * rows.encoding.dim != shape.embed_dim) {
    return error(StatusCode::invalid_argument, "{} rows of {} elements do not fill a width of {}",
                 shape.column_count, rows.encoding.dim, shape.embed_dim);
  }
  if (ring_length < shape.window()) {
    return error(StatusCode::invalid_argument, "a ring of {} positions for a window of {}",
                 ring_length, shape.window());
  }
  return {};
}

Status check_spans(const PleLayerArgs& args) {
  std::int64_t end = 0;
  for (std::int32_t i = 0; i < args.span_count; ++i) {
    const PleSpan& span = args.spans[i];
    const std::int64_t span_end = std::int64_t{span.token_begin} + span.token_count;
    if (span.token_count < 0 || span.token_begin < end || span_end > args.token_count) {
      return error(StatusCode::invalid_argument,
                   "span {} of tokens {} to {} in a step of {} tokens, {} of them taken", i,
                   span.token_begin, span_end, args.token_count, end);
    }
    if (span.position < 0 || span.cursor < 0 || span.cursor >= std::max(args.ring_length, 1) ||
        span.write_count < 0 || span.write_count > span.token_count ||
        span.write_count > args.ring_length - args.shape.window()) {
      return error(StatusCode::invalid_argument,
                   "span {} at position {}: cursor {}, {} entries to write in a ring of {} with a "
                   "window of {}",
                   i, span.position, span.cursor, span.write_count, args.ring_length,
                   args.shape.window());
    }
    end = span_end;
  }
  return {};
}

}  // namespace

Result<PleWeightsCpu> PleWeightsCpu::create(const PleShape& shape, const PleVectors& vectors) {
  if (shape.tap_count < 1 || shape.tap_count > kTapCountMax || shape.dilation < 1) {
    return error(StatusCode::unsupported, "a convolution of {} taps (1 to {}) and dilation {}",
                 shape.tap_count, kTapCountMax, shape.dilation);
  }
  PleWeightsCpu weights;
  PLE_TRY_ASSIGN(weights.key_, PackedMatrix::allocate({.group_count = shape.stream_count,
                                                       .group_rows = shape.hidden,
                                                       .inner_count = shape.embed_dim}));
  PLE_TRY_ASSIGN(weights.value_, PackedMatrix::allocate({.group_count = 1,
                                                         .group_rows = shape.hidden,
                                                         .inner_count = shape.embed_dim}));
  const std::int64_t length = std::int64_t{shape.stream_count} * shape.hidden;
  weights.vector_length_ = length;
  PLE_TRY_ASSIGN(weights.vectors_,
                 AlignedBuffer::allocate(sizeof(float) *
                                         static_cast<std::size_t>(length * (4 + shape.tap_count))));
  float* to = weights.vectors_.as<float>();
  for (std::int64_t i = 0; i < length; ++i) {
    const float key = 1.0F + bf16_to_f32(vectors.norm_key[i]);
    const float query = 1.0F + bf16_to_f32(vectors.norm_query[i]);
    to[i] = key;
    to[length + i] = query;
    to[2 * length + i] = key * query;
    to[3 * length + i] = 1.0F + bf16_to_f32(vectors.norm_conv[i]);
    for (std::int32_t k = 0; k < shape.tap_count; ++k) {
      to[(4 + k) * length + i] = bf16_to_f32(vectors.conv[i * shape.tap_count + k]);
    }
  }
  return weights;
}

std::size_t ple_layer_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                        std::int32_t token_count) {
  return Intermediates(shape, arithmetic, token_count, nullptr).bytes;
}

Status ple_layer_cpu(const PleLayerArgs& args, const PleWeightsCpu& weights, ThreadPool& pool) {
  PLE_TRY(check_shape(args.shape, args.rows, args.ring_length, weights));
  PLE_TRY(check_spans(args));
  LayerStep(args, weights).run(pool);
  return {};
}

std::size_t ple_rebuild_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                          std::int32_t entry_count) {
  return Intermediates(shape, arithmetic, entry_count, nullptr).bytes;
}

Status ple_rebuild_ring_cpu(const PleRebuildArgs& args, const PleWeightsCpu& weights,
                            ThreadPool& pool) {
  PLE_TRY(check_shape(args.shape, args.rows, args.ring_length, weights));
  if (args.entry_count < 0 || args.entry_count > args.ring_length || args.entry_begin < 0 ||
      args.entry_begin >= std::max(args.ring_length, 1)) {
    return error(StatusCode::invalid_argument, "{} entries from {} on in a ring of {}",
                 args.entry_count, args.entry_begin, args.ring_length);
  }
  RingRebuild(args, weights).run(pool);
  return {};
}

}  // namespace ple::kernels
