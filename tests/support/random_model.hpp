#pragma once

#include <pleiades/pleiades.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace ple::test {

// The sizes of a described qwen4_exp model.
struct ModelSizes {
  std::int32_t hidden = 40;
  std::int32_t stream_count = 3;
  std::int32_t ngram_size = 3;
  std::int32_t heads_per_ngram = 2;
  std::int32_t row_dim = 12;
  std::int32_t tap_count = 4;
  ple_row_format row_format = PLE_ROW_BF16;
  std::vector<std::int32_t> layers = {1, 3};

  std::int32_t column_count() const { return (ngram_size - 1) * heads_per_ngram; }
  std::int32_t embed_dim() const { return column_count() * row_dim; }
  std::int32_t highway() const { return stream_count * hidden; }
};

// A described model with random weights, and its rows in memory.
class RandomModel {
 public:
  static constexpr std::int32_t kVocab = 97;
  static constexpr std::int32_t kEos = 7;

  RandomModel(const ModelSizes& sizes, std::uint64_t seed)
      : sizes_(sizes), engine_(seed), layers_(sizes.layers.size()), model_(describe()) {}

  const pleiades::Model& model() const { return model_; }
  const ModelSizes& sizes() const { return sizes_; }
  const std::vector<std::uint16_t>& rows(std::size_t layer) const { return layers_[layer].rows; }
  // The table as an engine reads it.
  std::vector<std::uint16_t>& rows(std::size_t layer) { return layers_[layer].rows; }

 private:
  static constexpr std::int32_t kPrimesBegin = 31;
  static constexpr std::int32_t kRowDivisor = 8;

  struct Layer {
    std::vector<std::uint16_t> rows, key, value, norm_key, norm_query, norm_conv, conv;
  };

  // Every column of every layer has the next prime; a layer's sum is padded.
  std::uint64_t next_row_count() {
    const auto is_prime = [](std::int32_t number) {
      for (std::int32_t factor = 2; factor * factor <= number; ++factor) {
        if (number % factor == 0) return false;
      }
      return true;
    };
    std::int32_t rows = 0;
    for (std::int32_t column = 0; column < sizes_.column_count(); ++column) {
      while (!is_prime(next_prime_)) ++next_prime_;
      rows += next_prime_++;
    }
    return static_cast<std::uint64_t>((rows + kRowDivisor - 1) / kRowDivisor * kRowDivisor);
  }

  // bf16 bits of numbers up to about scale: any sign and fraction, exponents near scale's.
  std::vector<std::uint16_t> random(std::int64_t count, std::uint16_t exponent) {
    std::vector<std::uint16_t> bits(static_cast<std::size_t>(count));
    for (std::uint16_t& value : bits) {
      const auto drawn = static_cast<std::uint16_t>(engine_());
      value = static_cast<std::uint16_t>((drawn & 0x807F) | ((exponent - (drawn >> 13 & 3)) << 7));
    }
    return bits;
  }

  std::vector<std::uint16_t> random_rows(std::uint64_t row_count) {
    const auto elements = static_cast<std::int64_t>(row_count) * sizes_.row_dim;
    if (sizes_.row_format == PLE_ROW_BF16) return random(elements, 127);
    std::vector<std::uint16_t> codes(static_cast<std::size_t>(elements + 1) / 2);
    for (std::uint16_t& pair : codes) pair = static_cast<std::uint16_t>(engine_() & 0xBFBF);
    return codes;
  }

  pleiades::Model describe() {
    std::vector<ple_layer_desc> descs;
    std::vector<ple_shard_desc> shards(layers_.size());
    const std::int64_t highway = sizes_.highway();
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = layers_[i];
      const std::uint64_t row_count = next_row_count();
      layer.rows = random_rows(row_count);
      layer.key = random(highway * sizes_.embed_dim(), 124);
      layer.value = random(std::int64_t{sizes_.hidden} * sizes_.embed_dim(), 124);
      layer.norm_key = random(highway, 125);
      layer.norm_query = random(highway, 125);
      layer.norm_conv = random(highway, 125);
      layer.conv = random(highway * sizes_.tap_count, 126);
      shards[i] = {nullptr, layer.rows.data(), 0, 0, row_count};
      descs.push_back({.struct_bytes = sizeof(ple_layer_desc),
                       .layer_index = sizes_.layers[i],
                       .row_format = sizes_.row_format,
                       .row_scale = 1.0F,
                       .shards = &shards[i],
                       .shard_count = 1,
                       .key = layer.key.data(),
                       .value = layer.value.data(),
                       .norm_key = layer.norm_key.data(),
                       .norm_query = layer.norm_query.data(),
                       .norm_conv = layer.norm_conv.data(),
                       .conv = layer.conv.data()});
    }
    const ple_model_desc desc = {.struct_bytes = sizeof(ple_model_desc),
                                 .vocab_size = kVocab,
                                 .eos_token_id = kEos,
                                 .hidden = sizes_.hidden,
                                 .stream_count = sizes_.stream_count,
                                 .embed_dim = sizes_.embed_dim(),
                                 .ngram_size = sizes_.ngram_size,
                                 .heads_per_ngram = sizes_.heads_per_ngram,
                                 .tap_count = sizes_.tap_count,
                                 .ngram_vocab_size_base = kPrimesBegin,
                                 .row_count_divisor = kRowDivisor,
                                 .seed = 1234,
                                 .eps = 1e-6F,
                                 .layers = descs.data(),
                                 .layer_count = static_cast<std::int32_t>(descs.size())};
    return pleiades::Model::describe(desc);
  }

  ModelSizes sizes_;
  std::mt19937_64 engine_;
  std::int32_t next_prime_ = kPrimesBegin;
  std::vector<Layer> layers_;
  pleiades::Model model_;
};

// The highway that enters a layer at a position: a function of sequence name, position and channel.
inline std::vector<float> highway_at(std::uint64_t name, std::int64_t position,
                                     std::size_t token_count, std::int32_t width) {
  std::vector<float> highway;
  highway.reserve(token_count * static_cast<std::size_t>(width));
  for (std::size_t t = 0; t < token_count; ++t) {
    std::mt19937 engine(
        static_cast<std::uint32_t>(name * 100003 + static_cast<std::uint64_t>(position) + t));
    for (std::int32_t c = 0; c < width; ++c) {
      highway.push_back(static_cast<float>(engine()) * 0x1p-31F - 1.0F);
    }
  }
  return highway;
}

}  // namespace ple::test
