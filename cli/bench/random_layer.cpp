#include "bench/random_layer.hpp"

#include <cstring>
#include <numeric>

#include "counter.hpp"
#include "primes.hpp"
#include "synth/noise.hpp"

namespace pleiades::cli {
namespace {

constexpr std::int32_t kHidden = 2560;
constexpr std::int32_t kStreams = 4;
constexpr std::int32_t kChannels = kStreams * kHidden;
constexpr std::int32_t kEmbedDim = 2560;
constexpr std::int32_t kTaps = 4;
constexpr std::int32_t kVocabSize = 248320;
constexpr std::uint64_t kRowsBase = 20'000;
constexpr std::int32_t kHeadsPerNgram = 8;
constexpr std::int32_t kNgramSize = 3;
constexpr std::uint64_t kRowsDivisor = 128;

constexpr std::uint64_t kTextStream = 100;
constexpr std::uint64_t kHighwayStream = 101;

// Each of a token's columns has the next prime number of rows; the sum is padded.
std::uint64_t table_rows() {
  const std::vector<std::uint64_t> sizes =
      primes_from(kRowsBase, (kNgramSize - 1) * kHeadsPerNgram);
  const std::uint64_t rows = std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
  return (rows + kRowsDivisor - 1) / kRowsDivisor * kRowsDivisor;
}

std::vector<std::uint16_t> random_bf16(std::uint64_t row_count, std::uint64_t row_elements,
                                       std::uint64_t stream, float amplitude) {
  std::vector<std::uint16_t> values(row_count * row_elements);
  write_noise_rows({.stream = stream, .amplitude = amplitude}, 0, row_count, row_elements,
                   reinterpret_cast<std::byte*>(values.data()));
  return values;
}

ple_model_desc released_width(const ple_layer_desc* layer) {
  ple_model_desc desc = {};
  desc.struct_bytes = sizeof desc;
  desc.vocab_size = kVocabSize;
  desc.eos_token_id = 248044;
  desc.hidden = kHidden;
  desc.stream_count = kStreams;
  desc.embed_dim = kEmbedDim;
  desc.ngram_size = kNgramSize;
  desc.heads_per_ngram = kHeadsPerNgram;
  desc.tap_count = kTaps;
  desc.ngram_vocab_size_base = kRowsBase;
  desc.row_count_divisor = kRowsDivisor;
  desc.seed = 1234;
  desc.eps = 1e-6F;
  desc.layers = layer;
  desc.layer_count = 1;
  return desc;
}

}  // namespace

RandomLayer::RandomLayer()
    : rows_(random_bf16(table_rows(), kEmbedDim / ((kNgramSize - 1) * kHeadsPerNgram), 0, 0.25F)),
      key_(random_bf16(kChannels, kEmbedDim, 1, 0.25F)),
      value_(random_bf16(kHidden, kEmbedDim, 2, 0.25F)),
      norm_key_(random_bf16(kChannels, 1, 3, 0.25F)),
      norm_query_(random_bf16(kChannels, 1, 4, 0.25F)),
      norm_conv_(random_bf16(kChannels, 1, 5, 0.25F)),
      conv_(random_bf16(kChannels, kTaps, 6, 0.5F)),
      model_(describe()) {}

Model RandomLayer::describe() const {
  const ple_shard_desc shard = {nullptr, rows_.data(), 0, 0, table_rows()};
  ple_layer_desc layer = {};
  layer.struct_bytes = sizeof layer;
  layer.layer_index = kLayer;
  layer.row_format = PLE_ROW_BF16;
  layer.shards = &shard;
  layer.shard_count = 1;
  layer.key = key_.data();
  layer.value = value_.data();
  layer.norm_key = norm_key_.data();
  layer.norm_query = norm_query_.data();
  layer.norm_conv = norm_conv_.data();
  layer.conv = conv_.data();
  return Model::describe(released_width(&layer));
}

std::vector<std::int32_t> RandomLayer::tokens(std::int64_t begin, std::int32_t count) const {
  std::vector<std::int32_t> text(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint64_t word = counter_word(kTextStream, static_cast<std::uint64_t>(begin) + i);
    text[i] = static_cast<std::int32_t>(word % kVocabSize);
  }
  return text;
}

std::vector<std::byte> RandomLayer::highway(ple_element element, std::int64_t begin,
                                            std::int32_t count) const {
  const std::size_t element_bytes = element == PLE_F32 ? 4 : 2;
  std::vector<std::byte> bytes(static_cast<std::size_t>(count) * kChannels * element_bytes);
  const auto first = static_cast<std::uint64_t>(begin) * kChannels;
  for (std::size_t i = 0; i < bytes.size() / element_bytes; ++i) {
    const float value = unit_noise(counter_word(kHighwayStream, first + i));
    const std::uint16_t rounded = to_bf16(value);
    std::memcpy(bytes.data() + i * element_bytes,
                element == PLE_F32 ? static_cast<const void*>(&value) : &rounded, element_bytes);
  }
  return bytes;
}

Products RandomLayer::products() const { return {kEmbedDim, kChannels, kHidden}; }

double RandomLayer::weight_bytes() const { return 2.0 * (kChannels + kHidden) * kEmbedDim; }

double RandomLayer::flops(std::int32_t token_count) const {
  return 2.0 * token_count * (kChannels + kHidden) * kEmbedDim;
}

}  // namespace pleiades::cli
