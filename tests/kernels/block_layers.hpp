#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/block_weights_cuda.hpp"
#include "kernels/cuda_layer.hpp"
#include "kernels/gemma_layer_cpu.hpp"
#include "kernels/gemma_layer_cuda.hpp"
#include "kernels/longcat_layer_cpu.hpp"
#include "kernels/longcat_layer_cuda.hpp"
#include "kernels/token_step_cuda.hpp"
#include "support/random.hpp"

// LongCat's and Gemma's layers with random weights, rows and tokens, on the CPU and on the current
// CUDA device.

namespace ple::test {

using kernels::HighwayType;

inline std::vector<std::uint16_t> random_weights(Random& random, std::int64_t count) {
  std::vector<std::uint16_t> values(static_cast<std::size_t>(count));
  for (std::uint16_t& value : values) {
    value = f32_to_bf16(static_cast<float>(random.between(-4096, 4096)) / 16384.0F);
  }
  return values;
}

inline std::size_t element_bytes(HighwayType type) { return type == HighwayType::f32 ? 4 : 2; }

inline std::vector<float> widen(const std::byte* values, HighwayType type, std::size_t count) {
  std::vector<float> wide(count);
  if (type == HighwayType::f32) {
    std::memcpy(wide.data(), values, count * sizeof(float));
  } else {
    const auto* narrow = reinterpret_cast<const std::uint16_t*>(values);
    std::transform(narrow, narrow + count, wide.begin(), bf16_to_f32);
  }
  return wide;
}

// The tokens of one long step: their rows in a table that lies half in the arena, half in staging.
struct BlockTokens {
  std::int32_t token_count = 0;
  std::int32_t column_count = 0;
  RowEncoding encoding;
  std::uint32_t slot_bytes = 0;
  std::uint32_t slot_count = 0;
  std::vector<std::byte> table;       // [slot_count, slot_bytes]
  std::vector<SlotId> slots;          // [token_count, column_count]
  std::vector<TokenId> tokens;        // [token_count]
  std::vector<std::uint8_t> ignored;  // [token_count]

  BlockTokens(Random& random, std::int32_t token_count_, std::int32_t column_count_,
              RowFormat format, std::int32_t row_dim, std::int64_t vocab_size,
              std::uint32_t slot_count_)
      : token_count(token_count_), column_count(column_count_), slot_count(slot_count_) {
    encoding = {format, row_dim, encoded_row_bytes(format, row_dim), 0.75F};
    slot_bytes = static_cast<std::uint32_t>(encoding.row_bytes + 15) / 16 * 16;
    table.resize(std::size_t{slot_count} * slot_bytes);
    for (std::uint32_t slot = 0; slot < slot_count; ++slot) {
      detail::fill_row(random.engine(), encoding, table.data() + std::size_t{slot} * slot_bytes);
    }
    slots.resize(static_cast<std::size_t>(token_count) * static_cast<std::size_t>(column_count));
    for (SlotId& slot : slots) {
      slot =
          random.chance(0.05) ? kZeroSlot : static_cast<SlotId>(random.between(0, slot_count - 1));
    }
    for (std::int32_t t = 0; t < token_count; ++t) {
      tokens.push_back(static_cast<TokenId>(random.between(0, vocab_size - 1)));
      ignored.push_back(random.chance(0.1) ? 1 : 0);
    }
  }

  RowView rows(const std::byte* base) const {
    const std::uint32_t arena = slot_count / 2;
    return {base, base + std::size_t{arena} * slot_bytes, arena, slot_bytes, encoding};
  }
};

// What a layer of BlockTokens needs on the device for steps of up to a number of tokens.
class BlockStepCuda {
 public:
  BlockStepCuda(const BlockTokens& tokens, std::int32_t capacity, std::size_t scratch_bytes)
      : tokens_(tokens), capacity_(capacity) {
    const std::size_t bytes = kernels::TokenStepBlock::bytes(tokens.column_count, capacity);
    pinned_ = PinnedBuffer::allocate(bytes).value();
    block_ = DeviceBuffer::allocate(bytes).value();
    // Whatever scratch holds must not be read before it is written.
    scratch_ = to_device(std::vector<std::byte>(scratch_bytes + kAlignment, std::byte{0xFF}));
  }

  // Puts tokens [begin, begin + count) where the kernels look for them.
  void write(std::int32_t begin, std::int32_t count) {
    std::memset(pinned_.data(), 0xFF, pinned_.bytes());
    const auto view =
        kernels::TokenStepBlock::view(pinned_.data(), tokens_.column_count, capacity_);
    *view.counts = {.token_count = count};
    std::copy_n(tokens_.tokens.begin() + begin, count, view.tokens);
    std::copy_n(tokens_.ignored.begin() + begin, count, view.flags);
    std::copy_n(tokens_.slots.begin() + std::int64_t{begin} * tokens_.column_count,
                std::int64_t{count} * tokens_.column_count, view.slots);
    for (std::int32_t token = count; token < capacity_; ++token) {
      view.slots[std::int64_t{token} * tokens_.column_count] = kNoTokenSlot;
    }
  }

  std::byte* block() const { return block_.data(); }
  const std::byte* pinned_block() const { return pinned_.data(); }
  std::byte* scratch() const { return aligned(scratch_); }
  std::int32_t capacity() const { return capacity_; }

  static std::byte* aligned(const DeviceBuffer& buffer) {
    const auto address = reinterpret_cast<std::uintptr_t>(buffer.data());
    return buffer.data() + (kAlignment - address % kAlignment) % kAlignment;
  }
  static constexpr std::size_t kAlignment = 1024;

 private:
  const BlockTokens& tokens_;
  std::int32_t capacity_;
  PinnedBuffer pinned_;
  DeviceBuffer block_;
  DeviceBuffer scratch_;
};

inline CudaTraits traits_of_device(bool has_wgmma) {
  CudaTraits traits = cuda_traits(0).value();
  if (!has_wgmma) traits.compute_major = 8;
  return traits;
}

struct LongcatProblem {
  kernels::LongcatShape shape;
  BlockTokens tokens;
  std::vector<std::uint16_t> words;        // [vocab_size, hidden]
  std::vector<std::uint16_t> projections;  // [table_count, hidden, row_dim]

  LongcatProblem(Random& random, const kernels::LongcatShape& shape_, RowFormat format,
                 std::int32_t token_count, std::uint32_t slot_count = 64)
      : shape(shape_),
        tokens(random, token_count, shape_.table_count, format, shape_.row_dim, shape_.vocab_size,
               slot_count),
        words(random_weights(random, shape_.vocab_size * shape_.hidden)),
        projections(random_weights(
            random, std::int64_t{shape_.table_count} * shape_.hidden * shape_.row_dim)) {
    for (std::int32_t t = 0; t < token_count; ++t) {
      if (tokens.ignored[static_cast<std::size_t>(t)] == 0) continue;
      std::fill_n(tokens.slots.begin() + std::int64_t{t} * shape.table_count, shape.table_count,
                  kZeroSlot);
    }
  }

  std::vector<float> run_cpu(bool rounds_each, HighwayType type) const {
    auto weights = kernels::LongcatWeightsCpu::create(shape, rounds_each).value();
    std::memcpy(weights.words().data(), words.data(), words.size() * 2);
    for (std::int32_t i = 0; i < shape.table_count; ++i) {
      expect_ok(weights.projections()[static_cast<std::size_t>(i)].pack_rows(
          0, shape.hidden, projections.data() + std::int64_t{i} * shape.hidden * shape.row_dim));
    }
    const std::size_t count =
        static_cast<std::size_t>(tokens.token_count) * static_cast<std::size_t>(shape.hidden);
    std::vector<std::byte> output(count * element_bytes(type));
    AlignedBuffer scratch =
        AlignedBuffer::allocate(kernels::longcat_layer_scratch_bytes_cpu(shape, tokens.token_count))
            .value();
    const auto pool = ThreadPool::create(0).value();
    kernels::LongcatLayerArgs args;
    args.shape = shape;
    args.rounds_each = rounds_each;
    args.output_type = type;
    args.rows = tokens.rows(tokens.table.data());
    args.slots = tokens.slots.data();
    args.tokens = tokens.tokens.data();
    args.ignored = tokens.ignored.data();
    args.output = output.data();
    args.scratch = scratch.data();
    args.token_count = tokens.token_count;
    expect_ok(kernels::longcat_layer_cpu(args, weights, *pool));
    return widen(output.data(), type, count);
  }
};

// The layer on the device; each call of run is one step.
class LongcatCuda {
 public:
  LongcatCuda(const LongcatProblem& problem, std::int32_t capacity, bool has_wgmma,
              bool rounds_each, HighwayType type)
      : problem_(problem),
        step_(problem.tokens, capacity,
              kernels::longcat_layer_scratch_bytes_cuda(problem.shape, capacity)),
        words_(to_device(problem.words)),
        table_(to_device(problem.tokens.table)) {
    const kernels::LongcatShape& shape = problem.shape;
    const kernels::BlockTiles tiles = longcat_tiles(shape);
    weights_ = DeviceBuffer::allocate(tiles.weight_bytes() + BlockStepCuda::kAlignment).value();
    const DeviceBuffer projections = to_device(problem.projections);
    args_.weights = reinterpret_cast<std::uint16_t*>(BlockStepCuda::aligned(weights_));
    for (std::int32_t i = 0; i < shape.table_count; ++i) {
      expect_ok(kernels::pack_block_cuda(
          {.tiles = tiles,
           .block_index = i,
           .from = projections.as<std::uint16_t>() + std::int64_t{i} * shape.hidden * shape.row_dim,
           .stride = shape.row_dim,
           .element_count = shape.row_dim,
           .weights = const_cast<std::uint16_t*>(args_.weights)},
          nullptr));
    }
    EXPECT_CUDA(cudaDeviceSynchronize());
    output_ = to_device(std::vector<std::byte>(
        static_cast<std::size_t>(capacity) * row_length() * element_bytes(type), std::byte{0xFF}));
    args_.shape = shape;
    args_.rounds_each = rounds_each;
    args_.output_type = type;
    args_.traits = traits_of_device(has_wgmma);
    args_.words = words_.as<std::uint16_t>();
    args_.rows = problem.tokens.rows(table_.data());
    args_.step = step_.block();
    args_.pinned_step = step_.pinned_block();
    args_.output = output_.data();
    args_.scratch = step_.scratch();
    args_.token_capacity = capacity;
  }

  std::vector<float> run(std::int32_t begin, std::int32_t count) {
    step_.write(begin, count);
    expect_ok(enqueue(nullptr));
    return widen(to_host<std::byte>(output_).data(), args_.output_type,
                 static_cast<std::size_t>(count) * row_length());
  }

  // The step as it was last written.
  Status enqueue(cudaStream_t stream) const { return kernels::longcat_layer_cuda(args_, stream); }

 private:
  std::size_t row_length() const { return static_cast<std::size_t>(problem_.shape.hidden); }

  const LongcatProblem& problem_;
  BlockStepCuda step_;
  DeviceBuffer words_, table_, weights_, output_;
  kernels::LongcatLayerCudaArgs args_;
};

struct GemmaProblem {
  kernels::GemmaShape shape;
  kernels::GemmaScales scales;
  BlockTokens tokens;
  std::vector<std::uint16_t> projection;  // [layer_count * layer_dim, hidden]
  std::vector<std::uint16_t> norm_weight;
  std::vector<float> input;  // [token_count, hidden]

  GemmaProblem(Random& random, const kernels::GemmaShape& shape_, RowFormat format,
               std::int32_t token_count, std::uint32_t slot_count = 16)
      : shape(shape_),
        scales{.row = std::sqrt(static_cast<float>(shape_.layer_dim)),
               .projection = 1.0F / std::sqrt(static_cast<float>(shape_.hidden)),
               .sum = std::sqrt(0.5F)},
        tokens(random, token_count, 1, format, shape_.layer_count * shape_.layer_dim, 100,
               slot_count),
        projection(random_weights(
            random, std::int64_t{shape_.layer_count} * shape_.layer_dim * shape_.hidden)),
        norm_weight(random_weights(random, shape_.layer_dim)) {
    for (std::int64_t i = 0; i < std::int64_t{token_count} * shape.hidden; ++i) {
      input.push_back(static_cast<float>(random.between(-9999999, 9999999)) * 1e-6F);
    }
  }

  std::vector<std::byte> input_as(HighwayType type) const {
    std::vector<std::byte> bytes(input.size() * element_bytes(type));
    if (type == HighwayType::f32) {
      std::memcpy(bytes.data(), input.data(), bytes.size());
    } else {
      std::transform(input.begin(), input.end(), reinterpret_cast<std::uint16_t*>(bytes.data()),
                     f32_to_bf16);
    }
    return bytes;
  }
  std::size_t row_length() const {
    return static_cast<std::size_t>(shape.layer_count) * static_cast<std::size_t>(shape.layer_dim);
  }

  std::vector<float> run_cpu(bool rounds_each, HighwayType type) const {
    auto weights = kernels::GemmaWeightsCpu::create(shape, rounds_each, norm_weight).value();
    expect_ok(weights.projection().pack_rows(0, static_cast<std::int64_t>(row_length()),
                                             projection.data()));
    const std::size_t count = static_cast<std::size_t>(tokens.token_count) * row_length();
    const std::vector<std::byte> in = input_as(type);
    std::vector<std::byte> output(count * element_bytes(type));
    AlignedBuffer scratch =
        AlignedBuffer::allocate(kernels::gemma_layer_scratch_bytes_cpu(shape, tokens.token_count))
            .value();
    const auto pool = ThreadPool::create(0).value();
    kernels::GemmaLayerArgs args;
    args.shape = shape;
    args.scales = scales;
    args.rounds_each = rounds_each;
    args.type = type;
    args.rows = tokens.rows(tokens.table.data());
    args.slots = tokens.slots.data();
    args.input = in.data();
    args.output = output.data();
    args.scratch = scratch.data();
    args.token_count = tokens.token_count;
    expect_ok(kernels::gemma_layer_cpu(args, weights, *pool));
    return widen(output.data(), type, count);
  }
};

class GemmaCuda {
 public:
  GemmaCuda(const GemmaProblem& problem, std::int32_t capacity, bool has_wgmma, bool rounds_each,
            HighwayType type)
      : problem_(problem),
        step_(problem.tokens, capacity,
              kernels::gemma_layer_scratch_bytes_cuda(problem.shape, capacity)),
        table_(to_device(problem.tokens.table)),
        norm_weight_(to_device(problem.norm_weight)),
        all_input_(problem.input_as(type)) {
    const kernels::GemmaShape& shape = problem.shape;
    const kernels::BlockTiles tiles = gemma_tiles(shape, HighwayType::bf16);
    weights_ = DeviceBuffer::allocate(tiles.weight_bytes() + BlockStepCuda::kAlignment).value();
    const DeviceBuffer projection = to_device(problem.projection);
    args_.weights = reinterpret_cast<std::uint16_t*>(BlockStepCuda::aligned(weights_));
    for (std::int32_t i = 0; i < tiles.weight_block_count; ++i) {
      const std::int32_t begin = i * tiles.block_dim;
      expect_ok(kernels::pack_block_cuda(
          {.tiles = tiles,
           .block_index = i,
           .from = projection.as<std::uint16_t>() + begin,
           .stride = shape.hidden,
           .element_count = std::min(tiles.block_dim, shape.hidden - begin),
           .weights = const_cast<std::uint16_t*>(args_.weights)},
          nullptr));
    }
    EXPECT_CUDA(cudaDeviceSynchronize());
    const auto rows = static_cast<std::size_t>(capacity) * element_bytes(type);
    input_ = to_device(std::vector<std::byte>(rows * input_length(), std::byte{0xFF}));
    output_ = to_device(std::vector<std::byte>(rows * problem.row_length(), std::byte{0xFF}));
    args_.shape = shape;
    args_.scales = problem.scales;
    args_.rounds_each = rounds_each;
    args_.type = type;
    args_.traits = traits_of_device(has_wgmma);
    args_.norm_weight = norm_weight_.as<std::uint16_t>();
    args_.rows = problem.tokens.rows(table_.data());
    args_.step = step_.block();
    args_.pinned_step = step_.pinned_block();
    args_.input = input_.data();
    args_.output = output_.data();
    args_.scratch = step_.scratch();
    args_.token_capacity = capacity;
  }

  std::vector<float> run(std::int32_t begin, std::int32_t count) {
    const std::size_t token_bytes = input_length() * element_bytes(args_.type);
    EXPECT_CUDA(cudaMemcpy(input_.data(),
                           all_input_.data() + static_cast<std::size_t>(begin) * token_bytes,
                           static_cast<std::size_t>(count) * token_bytes, cudaMemcpyDefault));
    step_.write(begin, count);
    expect_ok(enqueue(nullptr));
    return widen(to_host<std::byte>(output_).data(), args_.type,
                 static_cast<std::size_t>(count) * problem_.row_length());
  }

  Status enqueue(cudaStream_t stream) const { return kernels::gemma_layer_cuda(args_, stream); }

 private:
  std::size_t input_length() const { return static_cast<std::size_t>(problem_.shape.hidden); }

  const GemmaProblem& problem_;
  BlockStepCuda step_;
  DeviceBuffer table_, norm_weight_, weights_, input_, output_;
  std::vector<std::byte> all_input_;
  kernels::GemmaLayerCudaArgs args_;
};

// How far two outputs are from each other, relative to the second.
inline double distance(const std::vector<float>& got, const std::vector<float>& wanted) {
  double error = got.size() == wanted.size() ? 0.0 : INFINITY;
  double norm = 0.0;
  for (std::size_t i = 0; i < std::min(got.size(), wanted.size()); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(wanted[i]), 2);
    norm += std::pow(static_cast<double>(wanted[i]), 2);
  }
  return std::sqrt(error / norm);
}

}  // namespace ple::test
