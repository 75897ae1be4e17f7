#include "kernels/ple_layer_cpu.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/number_formats.hpp"
#include "kernels/gate.hpp"
#include "kernels/ple_elementwise_cpu.hpp"
#include "kernels/ple_value_pass_cpu.hpp"

namespace ple::kernels {

namespace {

ValuePass::Inputs inputs_of(const PleLayerArgs& args) {
  return {args.shape, args.arithmetic, args.rows, args.slots, args.token_count};
}

class LayerStep {
 public:
  LayerStep(const PleLayerArgs& args, const PleWeightsCpu& weights, ScratchParts& scratch)
      : args_(args), weights_(weights), pass_(inputs_of(args), weights, scratch) {
    const std::int64_t tile_length = TokenTile::capacity(args.token_count);
    if (args.arithmetic == Arithmetic::reference) {
      keys_ = scratch.take<std::uint16_t>(tile_length * channel_count());
    } else {
      sums_ = scratch.take<GateSums>(tile_length * args.shape.stream_count * stream_panel_count());
    }
  }

  void run(ThreadPool& pool) const {
    TokenTile::for_each(args_.token_count, [&](TokenTile tile) {
      pass_.gather(tile, pool);
      products(tile, pool);
      pool.parallel_for(tile.token_count, [&](std::int64_t tile_token) {
        gates(tile, static_cast<std::int32_t>(tile_token));
      });
      pool.parallel_for(std::int64_t{tile.token_count} * args_.shape.stream_count,
                        [&](std::int64_t i) {
                          const auto index = static_cast<std::int32_t>(i);
                          inject_token(tile.token_begin + index / args_.shape.stream_count,
                                       index % args_.shape.stream_count);
                        });
    });
    pool.parallel_for(args_.span_count, [&](std::int64_t i) { update_ring(args_.spans[i]); });
  }

 private:
  std::int64_t channel_count() const {
    return std::int64_t{args_.shape.stream_count} * args_.shape.hidden;
  }
  std::int32_t stream_panel_count() const {
    return (args_.shape.hidden + kPanelRows - 1) / kPanelRows;
  }
  std::int64_t sums_stride() const {
    return std::int64_t{args_.shape.stream_count} * stream_panel_count();
  }

  // Bytes of a highway or output before (token, channel).
  std::int64_t highway_offset(std::int32_t token, std::int64_t channel) const {
    const std::int64_t element_bytes = args_.highway_type == HighwayType::f32 ? 4 : 2;
    return (token * channel_count() + channel) * element_bytes;
  }
  const void* highway(std::int32_t token, std::int64_t channel) const {
    return static_cast<const std::byte*>(args_.highway) + highway_offset(token, channel);
  }

  // Both products of a tile. A thread's panels lie one behind the other, the value's last.
  void products(TokenTile tile, ThreadPool& pool) const {
    const std::int32_t key_panels = weights_.key().panel_count();
    const auto panel = [&](std::int32_t index) {
      return index < key_panels ? weights_.key().panel(index)
                                : weights_.value().panel(index - key_panels);
    };
    pool.parallel_ranges(
        key_panels + weights_.value().panel_count(), [&](std::int64_t begin, std::int64_t end) {
          for (auto index = static_cast<std::int32_t>(begin); index < end; ++index) {
            const std::uint16_t* next_panel = index + 1 < end ? panel(index + 1) : nullptr;
            if (index < key_panels) {
              key_panel(index, next_panel, tile);
            } else {
              pass_.value_panel(index - key_panels, next_panel, tile);
            }
          }
        });
  }

  // The keys of one panel: used up for the gate's sums, or kept in the reference arithmetic.
  void key_panel(std::int32_t panel_index, const std::uint16_t* next_panel, TokenTile tile) const {
    alignas(kLineBytes) float product[kProductTokens * kPanelRows];
    const std::int64_t channel = weights_.key().panel_row(panel_index);
    const std::int32_t row_count = weights_.key().panel_rows(panel_index);
    for (std::int32_t begin = 0; begin < tile.token_count; begin += kProductTokens) {
      const std::int32_t count = std::min(kProductTokens, tile.token_count - begin);
      project_panel(weights_.key(), panel_index, pass_.embeddings(begin, count), product,
                    begin == 0 ? next_panel : nullptr);
      add_bias(weights_.key_bias(), channel, row_count, count, product);
      if (args_.arithmetic == Arithmetic::reference) {
        for (std::int32_t t = 0; t < count; ++t) {
          round_all_to_bf16(product + t * kPanelRows,
                            keys_ + (begin + t) * channel_count() + channel, row_count);
        }
      } else {
        gate_sums({.keys = product,
                   .gate_scale = weights_.gate_scale() + channel,
                   .highway = highway(tile.token_begin + begin, channel),
                   .highway_type = args_.highway_type,
                   .sums = sums_ + begin * sums_stride() + panel_index,
                   .key_stride = kPanelRows,
                   .highway_stride = channel_count(),
                   .sums_stride = sums_stride(),
                   .token_count = count,
                   .row_count = row_count});
      }
    }
  }

  // gamma and q of one token.
  void gates(TokenTile tile, std::int32_t tile_token) const {
    const std::int32_t token = tile.token_begin + tile_token;
    for (std::int32_t c = 0; c < args_.shape.stream_count; ++c) {
      pass_.scalars(token)[c] = args_.arithmetic == Arithmetic::reference
                                    ? reference_gate(token, tile_token, c)
                                    : gate(tile_token, c);
    }
    pass_.set_conv_roots(token);
  }

  float gate(std::int32_t tile_token, std::int32_t stream) const {
    const std::int32_t panels = weights_.key().group_panel_count();
    return gate_of_score(gate_score(sums_ + tile_token * sums_stride() + stream * panels, panels,
                                    args_.shape.hidden, args_.shape.eps));
  }

  float reference_gate(std::int32_t token, std::int32_t tile_token, std::int32_t stream) const {
    const std::int64_t channel = std::int64_t{stream} * args_.shape.hidden;
    const float score = reference_score({.key = keys_ + tile_token * channel_count() + channel,
                                         .highway = highway(token, channel),
                                         .highway_type = args_.highway_type,
                                         .key_scale = weights_.key_scale() + channel,
                                         .query_scale = weights_.query_scale() + channel,
                                         .hidden = args_.shape.hidden,
                                         .eps = args_.shape.eps});
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
      const float* s = pass_.scalars(token - lag);
      return {pass_.values(token - lag), s[stream], s[args_.shape.stream_count + stream]};
    }
    const std::int32_t entry =
        (span.cursor - (lag - index) + args_.ring_length) % args_.ring_length;
    const auto* ring_scalars = reinterpret_cast<const float*>(
        span.ring + PleRing::value_bytes(args_.shape, args_.arithmetic, args_.ring_length));
    const float* s = ring_scalars + std::int64_t{entry} * 2 * args_.shape.stream_count;
    return {span.ring + entry * pass_.value_bytes(), s[stream],
            s[args_.shape.stream_count + stream]};
  }

  void inject_token(std::int32_t token, std::int32_t stream) const {
    const PleSpan* span = span_of(token);
    if (span == nullptr) return;
    TapInput inputs[kPleTapCountMax];
    for (std::int32_t k = 0; k < args_.shape.tap_count; ++k) {
      inputs[k] =
          tap_input(*span, token, stream, (args_.shape.tap_count - 1 - k) * args_.shape.dilation);
    }
    const std::int64_t channel = std::int64_t{stream} * args_.shape.hidden;
    inject({.arithmetic = args_.arithmetic,
            .highway_type = args_.highway_type,
            .output_mode = args_.output_mode,
            .highway = highway(token, channel),
            .output = static_cast<std::byte*>(args_.output) + highway_offset(token, channel),
            .inputs = inputs,
            .conv_scale = weights_.conv_scale() + channel,
            .taps = weights_.tap(0) + channel,
            .tap_stride = channel_count(),
            .tap_count = args_.shape.tap_count,
            .hidden = args_.shape.hidden});
  }

  void update_ring(const PleSpan& span) const {
    const std::int32_t first = span.token_begin + span.token_count - span.write_count;
    for (std::int32_t i = 0; i < span.write_count; ++i) {
      pass_.write_ring(span.ring, args_.ring_length, (span.cursor + i) % args_.ring_length,
                       first + i);
    }
  }

  const PleLayerArgs& args_;
  const PleWeightsCpu& weights_;
  const ValuePass pass_;
  std::uint16_t* keys_ = nullptr;  // reference: [tile, stream_count, hidden] bf16
  GateSums* sums_ = nullptr;       // otherwise: [tile, key panels]
};

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

std::size_t ple_layer_scratch_bytes_cpu(const PleShape& shape, Arithmetic arithmetic,
                                        std::int32_t token_count) {
  ScratchParts parts(nullptr);
  PleLayerArgs args;
  args.shape = shape;
  args.arithmetic = arithmetic;
  args.token_count = token_count;
  LayerStep(args, PleWeightsCpu(), parts);
  return parts.bytes();
}

Status ple_layer_cpu(const PleLayerArgs& args, const PleWeightsCpu& weights, ThreadPool& pool) {
  PLE_TRY(check_ple_shape(args.shape, args.rows, args.ring_length, weights));
  PLE_TRY(check_spans(args));
  ScratchParts parts(args.scratch);
  LayerStep(args, weights, parts).run(pool);
  return {};
}

}  // namespace ple::kernels
