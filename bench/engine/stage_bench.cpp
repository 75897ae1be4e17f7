// The host's part of a step: microseconds of stage and of commit by the step's shape, with the
// table resident and behind a warm cache. One layer with the released model's 16 columns a token,
// over 16 million short rows in memory; its width is small, since nothing of it is run here but for
// the proof: before a shape is timed, its outputs are those of each sequence alone, in short steps.
//   stage_bench [--smoke]

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <pleiades/pleiades.hpp>
#include <random>
#include <span>
#include <string_view>
#include <vector>

namespace {

using namespace pleiades;
using Clock = std::chrono::steady_clock;

constexpr std::int32_t kLayer = 1;
constexpr std::int32_t kVocabSize = 248320;
constexpr std::int32_t kHidden = 32;
constexpr std::int32_t kStreams = 2;
constexpr std::int32_t kChannels = kStreams * kHidden;
constexpr std::int32_t kColumns = 16;
constexpr std::int32_t kRowDim = 8;
constexpr std::int32_t kEmbedDim = kColumns * kRowDim;
constexpr std::int32_t kTaps = 4;
constexpr std::size_t kShortStep = 64;

struct Shape {
  std::size_t sequences;
  std::size_t tokens;  // of each
};
constexpr Shape kShapes[] = {{1, 1}, {64, 1}, {256, 1}, {1, 2048}, {1, 8192}};

// bf16 numbers of any sign between 1/8 and 1.
std::vector<std::uint16_t> random_bf16(std::size_t count) {
  std::mt19937_64 engine(count);
  std::vector<std::uint16_t> bits(count);
  for (std::uint16_t& value : bits) {
    const std::uint64_t drawn = engine();
    value = static_cast<std::uint16_t>((drawn & 0x807F) | ((126 - (drawn >> 16 & 3)) << 7));
  }
  return bits;
}

class WideTable {
 public:
  explicit WideTable(std::int32_t rows_base)
      : rows_base_(rows_base),
        // Room for sizes that are the first primes from the base on.
        rows_(random_bf16(static_cast<std::size_t>(rows_base + 1024) * kColumns * kRowDim)) {}

  Model describe() const {
    ple_layer_desc layer = {};
    layer.struct_bytes = sizeof layer;
    layer.layer_index = kLayer;
    layer.row_format = PLE_ROW_BF16;
    layer.key = key_.data();
    layer.value = value_.data();
    layer.norm_key = layer.norm_query = layer.norm_conv = norm_.data();
    layer.conv = conv_.data();
    ple_model_desc desc = {};
    desc.struct_bytes = sizeof desc;
    desc.vocab_size = kVocabSize;
    desc.eos_token_id = 248044;
    desc.hidden = kHidden;
    desc.stream_count = kStreams;
    desc.embed_dim = kEmbedDim;
    desc.ngram_size = 3;
    desc.heads_per_ngram = kColumns / 2;
    desc.tap_count = kTaps;
    desc.ngram_vocab_size_base = rows_base_;
    // Rounds the table up to what rows_ holds.
    desc.row_count_divisor = (rows_base_ + 1024) * kColumns;
    desc.seed = 1234;
    desc.eps = 1e-6F;
    const ple_shard_desc shard = {nullptr, rows_.data(), 0, 0, rows_.size() / kRowDim};
    layer.shards = &shard;
    layer.shard_count = 1;
    desc.layers = &layer;
    desc.layer_count = 1;
    return Model::describe(desc);
  }

 private:
  std::int32_t rows_base_;
  std::vector<std::uint16_t> rows_;
  std::vector<std::uint16_t> key_ = random_bf16(kChannels * kEmbedDim);
  std::vector<std::uint16_t> value_ = random_bf16(kHidden * kEmbedDim);
  std::vector<std::uint16_t> norm_ = random_bf16(kChannels);
  std::vector<std::uint16_t> conv_ = random_bf16(kChannels * kTaps);
};

// The sequences of a shape with their tokens, and steps over all of them.
class Batch {
 public:
  Batch(Engine& engine, const Shape& shape) : shape_(shape), step_(engine, options_of(shape)) {
    for (std::size_t i = 0; i < shape.sequences; ++i) sequences_.emplace_back(engine);
    tokens_.resize(shape.sequences * shape.tokens);
  }

  void draw_tokens(std::size_t seed) {
    std::mt19937 random(static_cast<std::uint32_t>(seed));
    for (std::int32_t& token : tokens_) token = static_cast<std::int32_t>(random() % kVocabSize);
    parts_.clear();
    for (std::size_t i = 0; i < shape_.sequences; ++i) {
      parts_.push_back({sequences_[i], tokens_of(i)});
    }
  }
  std::span<const std::int32_t> tokens_of(std::size_t sequence) const {
    return std::span(tokens_).subspan(sequence * shape_.tokens, shape_.tokens);
  }

  void stage() { step_.stage(parts_); }
  void commit() { step_.commit(); }
  std::vector<float> run() {
    std::vector<float> highway(tokens_.size() * kChannels, 1.0F);
    step_.run(kLayer, highway);
    return highway;
  }

 private:
  static StepOptions options_of(const Shape& shape) {
    return {.tokens_max = static_cast<std::int32_t>(shape.sequences * shape.tokens),
            .sequences_max = static_cast<std::int32_t>(shape.sequences)};
  }

  Shape shape_;
  Step step_;
  std::vector<Sequence> sequences_;
  std::vector<std::int32_t> tokens_;
  std::vector<Part> parts_;
};

std::vector<float> run_alone(Engine& engine, std::span<const std::int32_t> tokens) {
  Sequence sequence(engine);
  Step step(engine, {.tokens_max = kShortStep, .sequences_max = 1});
  std::vector<float> out;
  for (std::size_t begin = 0; begin < tokens.size(); begin += kShortStep) {
    const auto piece = tokens.subspan(begin, std::min(kShortStep, tokens.size() - begin));
    std::vector<float> highway(piece.size() * kChannels, 1.0F);
    step.stage(sequence, piece);
    step.run(kLayer, highway);
    step.commit();
    out.insert(out.end(), highway.begin(), highway.end());
  }
  return out;
}

bool verify(Engine& engine, Engine& reference, const Shape& shape) {
  Batch batch(engine, shape);
  batch.draw_tokens(1);
  batch.stage();
  const std::vector<float> out = batch.run();
  batch.commit();
  std::vector<float> expected;
  for (std::size_t i = 0; i < shape.sequences; ++i) {
    const std::vector<float> part = run_alone(reference, batch.tokens_of(i));
    expected.insert(expected.end(), part.begin(), part.end());
  }
  return out == expected;
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double us_between(Clock::time_point begin, Clock::time_point end) {
  return std::chrono::duration<double, std::micro>(end - begin).count();
}

// The same text over and over, so long that its rows do not fit the processor's caches; the first
// time brings them into the library's.
void measure(Engine& engine, const Shape& shape, const char* arena, bool smoke) {
  const std::size_t period =
      smoke ? 1 : std::clamp<std::size_t>(524'288 / (shape.sequences * shape.tokens), 64, 4096);
  Batch batch(engine, shape);
  std::vector<double> stage_us;
  std::vector<double> commit_us;
  for (std::size_t i = 0; i < 2 * period; ++i) {
    batch.draw_tokens(i % period);
    const auto begin = Clock::now();
    batch.stage();
    const auto staged = Clock::now();
    batch.commit();
    const auto committed = Clock::now();
    if (i < period) continue;
    stage_us.push_back(us_between(begin, staged));
    commit_us.push_back(us_between(staged, committed));
  }
  fmt::print("{:10} {:>5} x {:<5} {:12.2f} {:12.2f}\n", arena, shape.sequences, shape.tokens,
             median(stage_us), median(commit_us));
}

int run(bool smoke) {
  const WideTable table(smoke ? 5000 : 1'000'000);
  const Model model = table.describe();
  EngineOptions options;
  options.arena = PLE_ARENA_RESIDENT;
  Engine resident = Engine::open(model, options);
  options.arena = PLE_ARENA_CACHED;
  options.cache_bytes = std::uint64_t{1} << 30;  // every row that was ever asked for
  Engine cached = Engine::open(model, options);
  Engine reference = Engine::open(model, options);

  fmt::print("{:10} {:13} {:>12} {:>12}\n", "arena", "step", "stage us", "commit us");
  for (const auto& [engine, name] : {std::pair(&resident, "resident"), {&cached, "cached"}}) {
    for (const Shape& shape : kShapes) {
      if (!verify(*engine, reference, shape)) {
        fmt::print(stderr, "{}, {} x {}: not what each sequence gives alone\n", name,
                   shape.sequences, shape.tokens);
        return 1;
      }
      measure(*engine, shape, name, smoke);
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 && std::string_view(argv[1]) == "--smoke");
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    return 1;
  }
}
