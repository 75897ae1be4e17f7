#pragma once

#include <cstdint>
#include <vector>

#include "base/number_formats.hpp"
#include "kernels/engram_layer_cpu.hpp"
#include "support/ple_problem.hpp"

namespace ple::test {

// An Engram layer with random weights and a random table of FP8 rows, for tests of its kernels on
// any device. Half of the table lies in the arena, half in staging.
struct EngramProblem {
  kernels::EngramShape shape;
  std::vector<std::uint8_t> codes;   // [(stream_count + 1) * hidden, embed_dim]
  std::vector<std::uint8_t> scales;  // [that / 32, embed_dim / 32]
  std::vector<std::uint16_t> query_weight, key_weight;
  RowEncoding encoding;
  std::uint32_t slot_bytes = 0;
  std::uint32_t row_count = 0;
  std::vector<std::byte> table;  // [row_count, slot_bytes]

  RowView rows() const {
    const std::uint32_t arena_slot_count = row_count / 2;
    return {table.data(), table.data() + std::size_t{arena_slot_count} * slot_bytes,
            arena_slot_count, slot_bytes, encoding};
  }
  std::int64_t channel_count() const { return std::int64_t{shape.stream_count} * shape.hidden; }
};

// Tokens of a step. The highway holds bf16 values, so that both highway types can carry it.
struct EngramBatch {
  std::int32_t token_count = 0;
  std::vector<SlotId> slots;       // [token_count, column_count]
  std::vector<std::uint8_t> dead;  // [token_count]
  std::vector<float> highway;      // [token_count, stream_count, hidden]
};

// shape.embed_dim is taken from column_count and row_dim. Scales lie in [scale_begin, scale_end].
inline EngramProblem make_engram_problem(kernels::EngramShape shape, std::int32_t row_dim,
                                         std::uint64_t seed, std::int32_t scale_begin = 114,
                                         std::int32_t scale_end = 117,
                                         std::uint32_t row_count = 64) {
  std::mt19937_64 engine(seed);
  EngramProblem problem;
  shape.embed_dim = shape.column_count * row_dim;
  problem.shape = shape;
  const std::int64_t channels = problem.channel_count();
  problem.codes.resize(static_cast<std::size_t>((channels + shape.hidden) * shape.embed_dim));
  for (std::uint8_t& code : problem.codes) {
    do {
      code = static_cast<std::uint8_t>(engine() >> 32);
    } while ((code & 0x7F) == 0x7F);
  }
  problem.scales.resize(problem.codes.size() / 1024);
  for (std::uint8_t& scale : problem.scales) {
    scale = static_cast<std::uint8_t>(
        scale_begin + static_cast<std::int32_t>(
                          engine() % static_cast<std::uint64_t>(scale_end - scale_begin + 1)));
  }
  problem.query_weight = detail::random_bf16(engine, channels, 1.5F);
  problem.key_weight = detail::random_bf16(engine, channels, 1.5F);
  problem.encoding = {RowFormat::fp8_e4m3_e8m0, row_dim,
                      encoded_row_bytes(RowFormat::fp8_e4m3_e8m0, row_dim)};
  problem.slot_bytes = static_cast<std::uint32_t>(problem.encoding.row_bytes + 15) / 16 * 16;
  problem.row_count = row_count;
  problem.table.resize(std::size_t{row_count} * problem.slot_bytes);
  for (std::uint32_t row = 0; row < row_count; ++row) {
    detail::fill_row(engine, problem.encoding,
                     problem.table.data() + std::size_t{row} * problem.slot_bytes);
  }
  return problem;
}

inline EngramBatch make_engram_batch(const EngramProblem& problem, std::int32_t token_count,
                                     std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::uniform_real_distribution<float> uniform(-2.0F, 2.0F);
  EngramBatch batch;
  batch.token_count = token_count;
  batch.slots.resize(static_cast<std::size_t>(token_count) *
                     static_cast<std::size_t>(problem.shape.column_count));
  for (SlotId& slot : batch.slots) {
    slot = engine() % 16 == 0 ? kZeroSlot : static_cast<SlotId>(engine() % problem.row_count);
  }
  batch.dead.resize(static_cast<std::size_t>(token_count));
  batch.highway.resize(static_cast<std::size_t>(token_count * problem.channel_count()));
  for (float& value : batch.highway) value = round_to_bf16(uniform(engine));
  return batch;
}

// The layer's weights for the CPU's operators.
inline kernels::EngramWeightsCpu cpu_weights(const EngramProblem& problem,
                                             kernels::EngramRounding rounding) {
  auto weights = kernels::EngramWeightsCpu::create(problem.shape, rounding, problem.query_weight,
                                                   problem.key_weight)
                     .value();
  constexpr std::int64_t kBlock = 32;
  const std::int64_t width = problem.shape.embed_dim;
  const std::int64_t rows = std::ssize(problem.codes) / width;
  std::vector<std::uint16_t> values(static_cast<std::size_t>(kBlock * width));
  // A block of rows at a time; panels of 64 rows are packed by whole ones.
  for (std::int64_t begin = 0; begin < rows; begin += kBlock) {
    for (std::int64_t i = 0; i < kBlock * width; ++i) {
      const auto at = static_cast<std::size_t>(begin * width + i);
      const auto block =
          static_cast<std::size_t>(begin / kBlock * (width / kBlock) + i % width / kBlock);
      values[static_cast<std::size_t>(i)] =
          f32_to_bf16(e4m3_to_f32(problem.codes[at]) * e8m0_to_f32(problem.scales[block]));
    }
    if (!weights.key_value().pack_rows(begin, kBlock, values.data()).is_ok()) std::abort();
  }
  return weights;
}

// The step's output by the CPU's operators, as the highway type keeps it.
inline std::vector<float> run_engram_cpu(const EngramProblem& problem, const EngramBatch& batch,
                                         const kernels::EngramWeightsCpu& weights,
                                         kernels::EngramRounding rounding, kernels::OutputMode mode,
                                         ThreadPool& pool) {
  std::vector<float> output(batch.highway.size());
  AlignedBuffer scratch = AlignedBuffer::allocate(kernels::engram_layer_scratch_bytes_cpu(
                                                      problem.shape, batch.token_count))
                              .value();
  kernels::EngramLayerArgs args;
  args.shape = problem.shape;
  args.rounding = rounding;
  args.output_mode = mode;
  args.rows = problem.rows();
  args.slots = batch.slots.data();
  args.dead = batch.dead.data();
  args.highway = batch.highway.data();
  args.output = output.data();
  args.scratch = scratch.data();
  args.token_count = batch.token_count;
  if (!kernels::engram_layer_cpu(args, weights, pool).is_ok()) std::abort();
  return output;
}

}  // namespace ple::test
