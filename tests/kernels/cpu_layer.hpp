#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/thread_pool.hpp"
#include "kernels/gather_rows.hpp"
#include "kernels/ple_layer_cpu.hpp"
#include "support/ple_problem.hpp"

namespace ple::test {

// A PLE layer on the CPU, its sequences and their rings, driven step by step.
class CpuLayer {
 public:
  struct Options {
    kernels::Arithmetic arithmetic = kernels::Arithmetic::float32;
    kernels::HighwayType highway_type = kernels::HighwayType::f32;
    kernels::OutputMode output_mode = kernels::OutputMode::delta;
    std::int32_t thread_count = 1;
    std::int32_t draft_count = 5;  // longest step that may be accepted in part
  };

  // One sequence's part of a step: its next token_count tokens.
  struct Part {
    std::size_t sequence_index = 0;
    std::int32_t token_count = 0;
  };

  CpuLayer(const PleProblem& problem, const std::vector<PleSequence>& sequences, Options options)
      : problem_(problem), sequences_(sequences), options_(options) {
    pool_ = ThreadPool::create(options.thread_count).value();
    weights_ = kernels::PleWeightsCpu::create(problem.shape, problem.vectors()).value();
    EXPECT_TRUE(weights_.key().pack_rows(0, problem.channel_count(), problem.key.data()).is_ok());
    EXPECT_TRUE(weights_.value().pack_rows(0, problem.shape.hidden, problem.value.data()).is_ok());
    // A long step leaves a whole new window beside the old one.
    ring_length_ = problem.shape.window() + std::max(problem.shape.window(), options.draft_count);
    const auto ring_bytes = static_cast<std::size_t>(
        kernels::PleRing::bytes(problem.shape, options.arithmetic, ring_length_));
    for (const PleSequence& sequence : sequences) {
      // Whatever a recycled ring holds must not be read.
      states_.push_back({std::vector<std::byte>(ring_bytes, std::byte{0xFF}), 0, 0});
      outputs_.emplace_back(sequence.highway.size());
    }
  }

  // Runs one step and, unless told otherwise, moves the sequences on.
  void step(const std::vector<Part>& parts, bool commit = true) {
    std::vector<kernels::PleSpan> spans;
    std::vector<SlotId> slots;
    std::vector<float> highway;
    for (const Part& part : parts) {
      State& state = states_[part.sequence_index];
      const PleSequence& sequence = sequences_[part.sequence_index];
      kernels::PleSpan span;
      span.ring = state.ring.data();
      span.position = state.position;
      span.token_begin = static_cast<std::int32_t>(slots.size()) / problem_.shape.column_count;
      span.token_count = part.token_count;
      span.cursor = state.cursor;
      span.write_count = std::min(part.token_count, ring_length_ - problem_.shape.window());
      spans.push_back(span);
      append(slots, sequence.slots, state.position, part.token_count, problem_.shape.column_count);
      append(highway, sequence.highway, state.position, part.token_count, problem_.channel_count());
    }
    const std::vector<float> output = run(spans, slots, highway);
    std::size_t index = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      State& state = states_[parts[i].sequence_index];
      const auto count = static_cast<std::size_t>(parts[i].token_count * problem_.channel_count());
      std::copy_n(output.begin() + static_cast<std::ptrdiff_t>(index), count,
                  outputs_[parts[i].sequence_index].begin() +
                      static_cast<std::ptrdiff_t>(state.position * problem_.channel_count()));
      index += count;
      if (!commit) continue;
      state.position += parts[i].token_count;
      state.cursor = (state.cursor + spans[i].write_count) % std::max(ring_length_, 1);
    }
  }

  // Moves a sequence on by a part of its last step, which was not committed.
  void accept(std::size_t sequence_index, std::int32_t token_count) {
    State& state = states_[sequence_index];
    state.position += token_count;
    state.cursor = (state.cursor + token_count) % std::max(ring_length_, 1);
  }

  // Destroys a sequence's ring and rebuilds its window from rows and gates, elsewhere in the ring.
  void forget_and_rebuild(std::size_t sequence_index) {
    State& state = states_[sequence_index];
    const auto count =
        static_cast<std::int32_t>(std::min<std::int64_t>(problem_.shape.window(), state.position));
    const std::int32_t streams = problem_.shape.stream_count;
    const auto* scalars = reinterpret_cast<const float*>(
        state.ring.data() +
        kernels::PleRing::value_bytes(problem_.shape, options_.arithmetic, ring_length_));
    std::vector<float> gamma;
    for (std::int32_t j = count; j >= 1; --j) {
      const std::int32_t entry = (state.cursor - j + ring_length_) % ring_length_;
      gamma.insert(gamma.end(), scalars + entry * 2 * streams,
                   scalars + entry * 2 * streams + streams);
    }
    std::fill(state.ring.begin(), state.ring.end(), std::byte{0xFF});
    const std::int32_t entry_begin = (state.cursor + 2) % std::max(ring_length_, 1);
    AlignedBuffer scratch = AlignedBuffer::allocate(kernels::ple_rebuild_scratch_bytes_cpu(
                                                        problem_.shape, options_.arithmetic, count))
                                .value();
    const Status status = kernels::ple_rebuild_ring_cpu(
        {.shape = problem_.shape,
         .arithmetic = options_.arithmetic,
         .rows = problem_.rows(),
         .slots = sequences_[sequence_index].slots.data() +
                  (state.position - count) * problem_.shape.column_count,
         .gamma = gamma.data(),
         .ring = state.ring.data(),
         .scratch = scratch.data(),
         .ring_length = ring_length_,
         .entry_begin = entry_begin,
         .entry_count = count},
        weights_, *pool_);
    EXPECT_TRUE(status.is_ok()) << status.message();
    state.cursor = (entry_begin + count) % std::max(ring_length_, 1);
  }

  // All that is left of every sequence, in one step.
  void step_rest() {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      parts.push_back(
          {i, sequences_[i].token_count - static_cast<std::int32_t>(states_[i].position)});
    }
    step(parts);
  }

  struct State {
    std::vector<std::byte> ring;
    std::int64_t position = 0;
    std::int32_t cursor = 0;
  };

  State& state(std::size_t sequence_index) { return states_[sequence_index]; }
  std::int32_t ring_length() const { return ring_length_; }
  const kernels::PleWeightsCpu& weights() const { return weights_; }
  ThreadPool& pool() { return *pool_; }
  const std::vector<float>& output(std::size_t sequence_index) const {
    return outputs_[sequence_index];
  }

 private:
  template <class T>
  static void append(std::vector<T>& to, const std::vector<T>& from, std::int64_t position,
                     std::int64_t count, std::int64_t width) {
    to.insert(to.end(), from.begin() + position * width, from.begin() + (position + count) * width);
  }

  std::vector<float> run(const std::vector<kernels::PleSpan>& spans,
                         const std::vector<SlotId>& slots, std::vector<float> highway) {
    const auto token_count = static_cast<std::int32_t>(slots.size()) / problem_.shape.column_count;
    AlignedBuffer scratch =
        AlignedBuffer::allocate(
            kernels::ple_layer_scratch_bytes_cpu(problem_.shape, options_.arithmetic, token_count))
            .value();
    std::fill_n(scratch.data(), scratch.bytes(), std::byte{0xFF});
    std::vector<std::uint16_t> narrow;
    for (const float value : highway) narrow.push_back(f32_to_bf16(value));
    const bool is_f32 = options_.highway_type == kernels::HighwayType::f32;
    void* data = is_f32 ? static_cast<void*>(highway.data()) : narrow.data();
    const Status status =
        kernels::ple_layer_cpu({.shape = problem_.shape,
                                .arithmetic = options_.arithmetic,
                                .highway_type = options_.highway_type,
                                .output_mode = options_.output_mode,
                                .rows = problem_.rows(),
                                .slots = slots.data(),
                                .highway = data,
                                .output = data,
                                .spans = spans.data(),
                                .scratch = scratch.data(),
                                .span_count = static_cast<std::int32_t>(spans.size()),
                                .token_count = token_count,
                                .ring_length = ring_length_},
                               weights_, *pool_);
    EXPECT_TRUE(status.is_ok()) << status.message();
    if (!is_f32) {
      for (std::size_t i = 0; i < narrow.size(); ++i) highway[i] = bf16_to_f32(narrow[i]);
    }
    return highway;
  }

  const PleProblem& problem_;
  const std::vector<PleSequence>& sequences_;
  Options options_;
  std::unique_ptr<ThreadPool> pool_;
  kernels::PleWeightsCpu weights_;
  std::int32_t ring_length_ = 0;
  std::vector<State> states_;
  std::vector<std::vector<float>> outputs_;
};

// The decoded rows of a sequence, [token_count, embed_dim].
inline std::vector<std::uint16_t> embeddings_of(const PleProblem& problem,
                                                const PleSequence& sequence) {
  std::vector<std::uint16_t> x(static_cast<std::size_t>(sequence.token_count) *
                               static_cast<std::size_t>(problem.shape.embed_dim));
  kernels::gather_rows_cpu({.rows = problem.rows(),
                            .slots = sequence.slots.data(),
                            .out = x.data(),
                            .stride = problem.shape.embed_dim,
                            .token_count = sequence.token_count,
                            .column_count = problem.shape.column_count});
  return x;
}

}  // namespace ple::test
