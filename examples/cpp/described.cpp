// An engine with a loader of its own tells geometry, shards and weights; no file is opened here.
// The table may lie in files (name, offset, rows) or, as here, in memory.

#include "example.hpp"

namespace {

constexpr std::int32_t kHidden = 32;
constexpr std::int32_t kStreams = 4;
constexpr std::int32_t kEmbedDim = 64;
constexpr std::int32_t kHeads = 16;  // 8 for bigrams, 8 for trigrams
constexpr std::int64_t kVocabBase = 500;
constexpr std::int64_t kDivisor = 128;

bool is_prime(std::int64_t number) {
  for (std::int64_t factor = 2; factor * factor <= number; ++factor) {
    if (number % factor == 0) return false;
  }
  return true;
}

// The heads' tables have the first primes from the base on; their sum is padded.
std::uint64_t row_count() {
  std::int64_t rows = 0;
  std::int64_t prime = kVocabBase - 1;
  for (std::int32_t head = 0; head < kHeads; ++head) {
    do ++prime;
    while (!is_prime(prime));
    rows += prime;
  }
  return static_cast<std::uint64_t>((rows + kDivisor - 1) / kDivisor * kDivisor);
}

// bf16 bits of small made-up numbers.
std::vector<std::uint16_t> weights(std::size_t count) {
  std::vector<std::uint16_t> bits(count);
  for (std::size_t i = 0; i < count; ++i) {
    bits[i] = static_cast<std::uint16_t>(0x3D00 + i * 7919 % 127 + (i % 2 << 15));
  }
  return bits;
}

void run(const pleiades::Model&) {
  constexpr std::size_t kChannels = std::size_t{kStreams} * kHidden;
  const auto table = weights(row_count() * kEmbedDim / kHeads);
  const auto key = weights(kChannels * kEmbedDim);
  const auto value = weights(std::size_t{kHidden} * kEmbedDim);
  const auto norms = weights(kChannels);
  const auto conv = weights(kChannels * 4);

  // Two shards, as a loader that read a sharded checkpoint has them.
  const std::uint64_t half = row_count() / 2;
  const ple_shard_desc shards[] = {
      {.file = nullptr, .data = table.data(), .offset = 0, .row_begin = 0, .row_count = half},
      {.file = nullptr,
       .data = table.data() + half * kEmbedDim / kHeads,
       .offset = 0,
       .row_begin = half,
       .row_count = row_count() - half}};
  const ple_layer_desc layer = {.struct_bytes = sizeof(ple_layer_desc),
                                .layer_index = 1,
                                .row_format = PLE_ROW_BF16,
                                .row_scale = 1,
                                .shards = shards,
                                .shard_count = 2,
                                .key = key.data(),
                                .value = value.data(),
                                .norm_key = norms.data(),
                                .norm_query = norms.data(),
                                .norm_conv = norms.data(),
                                .conv = conv.data()};
  const auto model = pleiades::Model::describe({.struct_bytes = sizeof(ple_model_desc),
                                                .vocab_size = 512,
                                                .eos_token_id = 7,
                                                .hidden = kHidden,
                                                .stream_count = kStreams,
                                                .embed_dim = kEmbedDim,
                                                .ngram_size = 3,
                                                .heads_per_ngram = kHeads / 2,
                                                .tap_count = 4,
                                                .ngram_vocab_size_base = kVocabBase,
                                                .row_count_divisor = kDivisor,
                                                .seed = 1234,
                                                .eps = 1e-6F,
                                                .layers = &layer,
                                                .layer_count = 1});
  auto engine = pleiades::Engine::open(model);
  pleiades::Sequence sequence(engine);
  pleiades::Step step(engine);
  const auto before = highway_of(some_tokens(10), 0, kChannels);
  const auto after = forward(step, sequence, model.layers().front(), some_tokens(10));
  expect(after.size() == before.size() && after != before, "the described layer ran");
}

}  // namespace

int main(int argc, char** argv) { return example(argc, argv, run); }
