#include "layer_stream.hpp"

#include <algorithm>
#include <array>
#include <chrono>

namespace pleiades::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Record = LayerStream::Record;

// Runs body; its microseconds.
template <class Body>
double timed_us(Body body) {
  const Clock::time_point started = Clock::now();
  body();
  return std::chrono::duration<double, std::micro>(Clock::now() - started).count();
}

// The steps of a stream of token_count tokens, in order.
std::vector<Record> plan_steps(std::int64_t token_count, const LayerStream::Options& options) {
  std::vector<Record> steps;
  const std::int64_t prefill = token_count - std::min(options.decode_count, token_count);
  for (std::int64_t position = 0; position < prefill; position += options.chunk) {
    steps.push_back({position, std::min(options.chunk, prefill - position), false, 0, 0, 0, 0});
  }
  for (std::int64_t position = prefill; position < token_count; ++position) {
    steps.push_back({position, 1, true, 0, 0, 0, 0});
  }
  return steps;
}

}  // namespace

LayerStream::LayerStream(Engine& engine, const ple_layer_info& layer, const Options& options)
    : engine_(engine), layer_(layer), options_(options) {}

void LayerStream::run(std::span<const std::vector<std::int32_t>> sequences,
                      const Callbacks& callbacks) {
  std::vector<Record> records = plan_steps(
      std::ssize(sequences.empty() ? std::vector<std::int32_t>() : sequences[0]), options_);
  std::int64_t tokens_max = 1;
  for (const Record& record : records) tokens_max = std::max(tokens_max, record.token_count);
  tokens_max *= std::ssize(sequences);

  std::vector<Sequence> timelines;
  for (std::size_t i = 0; i < sequences.size(); ++i) timelines.emplace_back(engine_);
  const StepOptions step_options{.tokens_max = static_cast<std::int32_t>(tokens_max),
                                 .sequences_max = static_cast<std::int32_t>(sequences.size())};
  std::array<Step, 2> steps = {Step(engine_, step_options), Step(engine_, step_options)};

  const std::size_t element_bytes = options_.element == PLE_F32 ? 4 : 2;
  const auto tensor = [&](std::int64_t token_elements) {
    return std::vector<std::byte>(static_cast<std::size_t>(tokens_max * token_elements) *
                                  element_bytes);
  };
  // A layer that updates its stream does so in place.
  const bool is_in_place = layer_.input_elements == layer_.output_elements;
  std::vector<std::byte> output = tensor(layer_.output_elements);
  std::vector<std::byte> other_input = tensor(is_in_place ? 0 : layer_.input_elements);
  ple_run_args args = PLE_RUN_ARGS_INIT;
  args.element = options_.element;
  args.mode = options_.mode;
  args.output = output.data();
  args.input = is_in_place ? output.data() : other_input.data();
  void* const input = is_in_place ? output.data() : other_input.data();

  std::vector<Part> parts;
  const auto stage = [&](std::size_t i) {
    Record& record = records[i];
    parts.clear();
    for (std::size_t s = 0; s < sequences.size(); ++s) {
      parts.push_back({timelines[s], std::span(sequences[s])
                                         .subspan(static_cast<std::size_t>(record.position),
                                                  static_cast<std::size_t>(record.token_count))});
    }
    record.stage_us = timed_us([&] { steps[i % 2].stage(parts); });
  };
  for (std::size_t i = 0; i < records.size(); ++i) {
    const bool was_staged = i > 0 && options_.is_lookahead && !records[i].is_decode;
    if (!was_staged) stage(i);
    if (options_.is_lookahead && i + 1 < records.size() && !records[i + 1].is_decode) stage(i + 1);
    Record& record = records[i];
    Step& step = steps[i % 2];
    if (layer_.input_elements > 0) callbacks.fill(record.position, record.token_count, input);
    record.wait_us = timed_us([&] { step.wait(); });
    record.run_us = timed_us([&] { step.run(layer_.layer_index, args); });
    record.commit_us = timed_us([&] { step.commit(); });
    callbacks.drain(record.position, record.token_count, output.data());
    if (callbacks.step_done) callbacks.step_done(record);
  }
}

}  // namespace pleiades::cli
