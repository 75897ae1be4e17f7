#include "bench/random_layer.hpp"

#include <numeric>

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

// Each of a token's columns has the next prime number of rows; the sum is padded.
std::uint64_t table_rows() {
  const std::vector<std::uint64_t> sizes =
      primes_from(kRowsBase, std::size_t{kNgramSize - 1} * kHeadsPerNgram);
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
  layer.layer_index = 1;
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

}  // namespace pleiades::cli
