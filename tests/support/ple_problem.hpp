#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "base/number_formats.hpp"
#include "base/row_view.hpp"
#include "kernels/ple_layer.hpp"

namespace ple::test {

// A PLE layer with random weights and a random table of rows, for tests of its kernels on any
// device. Half of the table lies in the arena, half in staging.
struct PleProblem {
  kernels::PleShape shape;
  std::vector<std::uint16_t> key;    // [stream_count * hidden, embed_dim]
  std::vector<std::uint16_t> value;  // [hidden, embed_dim]
  std::vector<std::uint16_t> norm_key, norm_query, norm_conv, conv;
  std::vector<std::uint16_t> key_bias, value_bias;  // empty: none
  RowEncoding encoding;
  std::uint32_t slot_bytes = 0;
  std::uint32_t row_count = 0;
  std::vector<std::byte> table;  // [row_count, slot_bytes]

  kernels::PleVectors vectors() const {
    kernels::PleVectors vectors{norm_key.data(), norm_query.data(), norm_conv.data(), conv.data()};
    if (!key_bias.empty()) {
      vectors.key_bias = key_bias.data();
      vectors.value_bias = value_bias.data();
    }
    return vectors;
  }
  RowView rows() const {
    const std::uint32_t arena_slot_count = row_count / 2;
    return {table.data(), table.data() + std::size_t{arena_slot_count} * slot_bytes,
            arena_slot_count, slot_bytes, encoding};
  }
  std::int64_t channel_count() const { return std::int64_t{shape.stream_count} * shape.hidden; }
};

// One sequence's inputs. The highway holds bf16 values, so that both highway types can carry it.
struct PleSequence {
  std::int32_t token_count = 0;
  std::vector<SlotId> slots;   // [token_count, column_count]
  std::vector<float> highway;  // [token_count, stream_count, hidden]
};

namespace detail {

inline std::vector<std::uint16_t> random_bf16(std::mt19937_64& engine, std::int64_t count,
                                              float scale) {
  std::uniform_real_distribution<float> uniform(-scale, scale);
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& value : values) value = f32_to_bf16(uniform(engine));
  return values;
}

// Random bytes that decode to finite numbers of ordinary size.
inline void fill_row(std::mt19937_64& engine, const RowEncoding& encoding, std::byte* row) {
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  const auto put = [&](std::int64_t offset, const auto& value) {
    std::memcpy(row + offset, &value, sizeof(value));
  };
  const auto code = [&](int limit) { return static_cast<std::uint8_t>(engine() % limit); };
  const auto e4m3 = [&] { return static_cast<std::uint8_t>(code(0x60) | (engine() & 0x80)); };
  const std::int32_t dim = encoding.dim;
  for (std::int32_t i = 0; i < dim; ++i) {
    switch (encoding.format) {
      case RowFormat::bf16:
        put(2 * i, f32_to_bf16(uniform(engine)));
        break;
      case RowFormat::f16:  // any sign, exponents up to 1, any fraction
        put(2 * i, static_cast<std::uint16_t>(engine() & 0xBFFF));
        break;
      case RowFormat::f32:
        put(4 * i, uniform(engine));
        break;
      case RowFormat::fp8_e4m3:
      case RowFormat::fp8_e4m3_row:
      case RowFormat::fp8_e4m3_e8m0:
        put(i, e4m3());
        break;
      case RowFormat::int8_row:
      case RowFormat::nvfp4:
        if (i < encoding.row_bytes) put(i, code(256));
        break;
    }
  }
  switch (encoding.format) {
    case RowFormat::fp8_e4m3_row:
    case RowFormat::int8_row:
      put(dim, 0.01F * (2.0F + uniform(engine)));
      break;
    case RowFormat::fp8_e4m3_e8m0:
      for (std::int32_t b = 0; b < dim / 32; ++b)
        put(dim + b, static_cast<std::uint8_t>(118 + code(8)));
      break;
    case RowFormat::nvfp4:
      for (std::int32_t b = 0; b < dim / 16; ++b) put(dim / 2 + b, code(0x60));
      break;
    default:
      break;
  }
}

}  // namespace detail

// shape.embed_dim is taken from column_count and row_dim.
inline PleProblem make_ple_problem(kernels::PleShape shape, RowFormat format, std::int32_t row_dim,
                                   std::uint64_t seed, bool has_bias = false) {
  std::mt19937_64 engine(seed);
  PleProblem problem;
  shape.embed_dim = shape.column_count * row_dim;
  problem.shape = shape;
  const std::int64_t channels = problem.channel_count();
  const float weight_scale = 3.0F / std::sqrt(static_cast<float>(shape.embed_dim));
  problem.key = detail::random_bf16(engine, channels * shape.embed_dim, weight_scale);
  problem.value =
      detail::random_bf16(engine, std::int64_t{shape.hidden} * shape.embed_dim, weight_scale);
  problem.norm_key = detail::random_bf16(engine, channels, 0.5F);
  problem.norm_query = detail::random_bf16(engine, channels, 0.5F);
  problem.norm_conv = detail::random_bf16(engine, channels, 0.5F);
  problem.conv = detail::random_bf16(engine, channels * shape.tap_count, 0.6F);
  problem.encoding = {format, row_dim, encoded_row_bytes(format, row_dim), 0.03F};
  problem.slot_bytes = static_cast<std::uint32_t>(problem.encoding.row_bytes + 15) / 16 * 16;
  problem.row_count = 64;
  problem.table.resize(std::size_t{problem.row_count} * problem.slot_bytes);
  for (std::uint32_t row = 0; row < problem.row_count; ++row) {
    detail::fill_row(engine, problem.encoding,
                     problem.table.data() + std::size_t{row} * problem.slot_bytes);
  }
  if (has_bias) {
    problem.key_bias = detail::random_bf16(engine, channels, 1.0F);
    problem.value_bias = detail::random_bf16(engine, shape.hidden, 1.0F);
  }
  return problem;
}

inline PleSequence make_ple_sequence(const PleProblem& problem, std::int32_t token_count,
                                     std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  PleSequence sequence;
  sequence.token_count = token_count;
  sequence.slots.resize(static_cast<std::size_t>(token_count) *
                        static_cast<std::size_t>(problem.shape.column_count));
  for (SlotId& slot : sequence.slots) {
    slot = engine() % 16 == 0 ? kZeroSlot : static_cast<SlotId>(engine() % problem.row_count);
  }
  sequence.highway.resize(static_cast<std::size_t>(token_count * problem.channel_count()));
  for (float& value : sequence.highway) value = round_to_bf16(uniform(engine));
  return sequence;
}

}  // namespace ple::test
