#include <fmt/format.h>
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>

#include "command.hpp"
#include "counter.hpp"
#include "file.hpp"
#include "layer_stream.hpp"
#include "names.hpp"
#include "options.hpp"
#include "progress.hpp"
#include "run_report.hpp"
#include "token_file.hpp"

namespace pleiades::cli {
namespace {

constexpr const char* kExamples = R"(Examples:
  pleiades run /data/demo --tokens text.u32 --cache-bytes 100MB
  pleiades run /data/demo --tokens text.u32 --arena resident --decode 500
  pleiades run /data/demo --tokens text.u32 --sequences 8 --chunk 64 --json

The tokens go through the layer over a made-up highway. output_digest is a hash of the output's
bits; it is the same for every chunking, batching, cache size and number of threads.)";

// Of the made-up highway: value number (position * channels + channel) of this counter stream.
constexpr std::uint64_t kHighwayStream = 0x486967687761793F;

struct Arguments {
  std::string path;
  std::optional<std::int32_t> layer;
  std::string tokens;
  std::string token_map;
  std::int64_t sequence_count = 1;
  LayerStream::Options stream;
  EngineOptions engine;
  std::string metrics_file;
  bool with_steps = false;
  bool json = false;
};

void fill_highway(ple_element element, std::int64_t position, std::int64_t token_count,
                  std::int64_t token_elements, void* out) {
  const auto count = static_cast<std::uint64_t>(token_count * token_elements);
  const auto first = static_cast<std::uint64_t>(position * token_elements);
  if (element == PLE_F32) {
    auto* values = static_cast<float*>(out);
    for (std::uint64_t i = 0; i < count; ++i) {
      values[i] = unit_noise(counter_word(kHighwayStream, first + i));
    }
  } else {
    auto* values = static_cast<std::uint16_t*>(out);
    for (std::uint64_t i = 0; i < count; ++i) {
      values[i] = to_bf16(unit_noise(counter_word(kHighwayStream, first + i)));
    }
  }
}

// XXH3 of 128 bits over the output of one sequence, in the order of its positions.
class OutputDigest {
 public:
  OutputDigest() { XXH3_128bits_reset(&state_); }
  void add(const void* bytes, std::size_t count) { XXH3_128bits_update(&state_, bytes, count); }
  std::string text() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  XXH3_state_t state_;
};

// Streams the tokens; the steps go to the report, the output's digest is returned.
std::string stream_tokens(Engine& engine, const ple_layer_info& layer, const Arguments& arguments,
                          const std::vector<std::int32_t>& tokens, RunReport& report) {
  const auto sequence_count = static_cast<std::size_t>(arguments.sequence_count);
  const std::vector<std::vector<std::int32_t>> sequences(sequence_count, tokens);
  const std::size_t element_bytes = arguments.stream.element == PLE_F32 ? 4 : 2;
  std::vector<OutputDigest> digests(sequence_count);
  ProgressBar bar("running", ProgressBar::Unit::count);

  LayerStream::Callbacks callbacks;
  callbacks.fill = [&](std::int64_t position, std::int64_t token_count, void* input) {
    const auto part_bytes =
        static_cast<std::size_t>(token_count * layer.input_elements) * element_bytes;
    fill_highway(arguments.stream.element, position, token_count, layer.input_elements, input);
    for (std::size_t s = 1; s < sequence_count; ++s) {
      std::memcpy(static_cast<std::byte*>(input) + s * part_bytes, input, part_bytes);
    }
  };
  callbacks.drain = [&](std::int64_t, std::int64_t token_count, const void* output) {
    const auto part_bytes =
        static_cast<std::size_t>(token_count * layer.output_elements) * element_bytes;
    for (std::size_t s = 0; s < sequence_count; ++s) {
      digests[s].add(static_cast<const std::byte*>(output) + s * part_bytes, part_bytes);
    }
  };
  callbacks.step_done = [&](const LayerStream::Record& record) {
    const bool counted = arguments.with_steps;
    report.steps.push_back({.times = record,
                            .metrics = counted ? engine.metrics() : ple_metrics{},
                            .rss_bytes = counted ? rss_bytes() : 0});
    bar.update(static_cast<std::uint64_t>(record.position + record.token_count), tokens.size());
  };
  LayerStream(engine, layer, arguments.stream).run(sequences, callbacks);

  for (std::size_t s = 1; s < sequence_count; ++s) {
    if (digests[s].text() != digests[0].text()) {
      refuse(
          "{}: sequence {} and sequence 0 read the same tokens, but their outputs differ: {}, {}",
          arguments.path, s, digests[s].text(), digests[0].text());
    }
  }
  return digests[0].text();
}

int run(Arguments arguments) {
  const Model model = open_checkpoint(arguments.path, arguments.token_map);
  const ple_layer_info layer = choose_layer(model, arguments.path, arguments.layer);
  const std::vector<std::int32_t> tokens = read_tokens(arguments.tokens, model.info().vocab_size);
  if (arguments.stream.decode_count > std::ssize(tokens)) {
    refuse("--decode {}: {} holds only {} tokens", arguments.stream.decode_count, arguments.tokens,
           tokens.size());
  }
  if (layer.input_elements != layer.output_elements) arguments.stream.mode = PLE_OUTPUT_DELTA;

  arguments.engine.layers = {layer.layer_index};
  Engine engine = Engine::open(model, arguments.engine);
  RunReport report;
  report.path = arguments.path;
  report.layer = layer;
  report.sequence_count = arguments.sequence_count;
  report.output_digest = stream_tokens(engine, layer, arguments, tokens, report);
  report.engine = engine.info();
  report.metrics = engine.metrics();
  report.read_times = engine.read_times();
  report.peak_rss_bytes = peak_rss_bytes();
  if (!arguments.metrics_file.empty()) {
    const std::string text = engine.metrics_text();
    replace_file(arguments.metrics_file, text.data(), text.size());
  }
  arguments.json ? report.print_json(arguments.with_steps) : report.print_text();
  return kOk;
}

}  // namespace

Action make_run(Options& options) {
  const auto arguments = std::make_shared<Arguments>();
  LayerStream::Options& stream = arguments->stream;
  options.examples(kExamples);
  options.positional("DIR", arguments->path, "A checkpoint");
  options.layer(arguments->layer);
  options.required_text("--tokens", arguments->tokens, "FILE", "Little-endian u32 token ids");
  options.token_map(arguments->token_map);
  options.number("--sequences", arguments->sequence_count, 1, 4096, "N",
                 "Sequences that read the tokens side by side (1)");
  options.number("--chunk", stream.chunk, 1, 1 << 20, "C",
                 "Tokens of a sequence in one step (512)");
  options.number("--decode", stream.decode_count, 0, Options::kInt32Max, "N",
                 "Take the last N tokens one at a time");
  options.element(stream.element);
  options.flag("!--no-lookahead", stream.is_lookahead,
               "Do not stage the next chunk before this one runs");
  options.engine(arguments->engine);
  options.text("--metrics", arguments->metrics_file, "FILE",
               "Write the counters as a Prometheus page");
  options.flag("--steps", arguments->with_steps, "Add every step to the JSON: times, hits, memory");
  options.json(arguments->json);
  return [arguments] { return run(*arguments); };
}

}  // namespace pleiades::cli
