#pragma once

#include <pleiades/pleiades.hpp>

#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace ple::test {

// A described qwen4_exp model with two PLE layers, random weights, and its rows in memory.
class SmallModel {
 public:
  static constexpr std::int32_t kVocab = 97;
  static constexpr std::int32_t kEos = 7;
  static constexpr std::int32_t kHidden = 40;
  static constexpr std::int32_t kStreams = 3;
  static constexpr std::int32_t kColumns = 4;
  static constexpr std::int32_t kRowDim = 12;
  static constexpr std::int32_t kEmbedDim = kColumns * kRowDim;
  static constexpr std::int32_t kTaps = 4;
  static constexpr std::int32_t kHighway = kStreams * kHidden;
  static constexpr std::int32_t kLayers[2] = {1, 3};
  // The primes from 31 on, four to a layer, padded to a multiple of 8.
  static constexpr std::uint64_t kRowCounts[2] = {152, 224};

  explicit SmallModel(std::uint64_t seed) : model_(describe(seed)) {}

  const pleiades::Model& model() const { return model_; }
  const std::vector<std::uint16_t>& rows(std::size_t layer) const { return layers_[layer].rows; }
  // The table as an engine reads it.
  std::vector<std::uint16_t>& rows(std::size_t layer) { return layers_[layer].rows; }

 private:
  struct Layer {
    std::vector<std::uint16_t> rows, key, value, norm_key, norm_query, norm_conv, conv;
  };

  pleiades::Model describe(std::uint64_t seed) {
    std::mt19937_64 engine(seed);
    // bf16 bits of numbers up to about scale: any sign and fraction, exponents near scale's.
    const auto random = [&](std::size_t count, std::uint16_t exponent) {
      std::vector<std::uint16_t> bits(count);
      for (std::uint16_t& value : bits) {
        const auto drawn = static_cast<std::uint16_t>(engine());
        value =
            static_cast<std::uint16_t>((drawn & 0x807F) | ((exponent - (drawn >> 13 & 3)) << 7));
      }
      return bits;
    };
    std::vector<ple_layer_desc> descs;
    std::vector<ple_shard_desc> shards(2);
    for (std::size_t i = 0; i < 2; ++i) {
      Layer& layer = layers_[i];
      layer.rows = random(kRowCounts[i] * kRowDim, 127);
      layer.key = random(std::size_t{kHighway} * kEmbedDim, 124);
      layer.value = random(std::size_t{kHidden} * kEmbedDim, 124);
      layer.norm_key = random(kHighway, 125);
      layer.norm_query = random(kHighway, 125);
      layer.norm_conv = random(kHighway, 125);
      layer.conv = random(std::size_t{kHighway} * kTaps, 126);
      shards[i] = {nullptr, layer.rows.data(), 0, 0, kRowCounts[i]};
      descs.push_back({.struct_bytes = sizeof(ple_layer_desc),
                       .layer_index = kLayers[i],
                       .row_format = PLE_ROW_BF16,
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
                                 .hidden = kHidden,
                                 .stream_count = kStreams,
                                 .embed_dim = kEmbedDim,
                                 .ngram_size = 3,
                                 .heads_per_ngram = 2,
                                 .tap_count = kTaps,
                                 .ngram_vocab_size_base = 31,
                                 .row_count_divisor = 8,
                                 .seed = 1234,
                                 .eps = 1e-6F,
                                 .layers = descs.data(),
                                 .layer_count = 2};
    return pleiades::Model::describe(desc);
  }

  Layer layers_[2];
  pleiades::Model model_;
};

// The highway that enters a layer at a position: a function of sequence name, position and channel.
inline std::vector<float> highway_at(std::uint64_t name, std::int64_t position,
                                     std::size_t token_count) {
  std::vector<float> highway;
  for (std::size_t t = 0; t < token_count; ++t) {
    std::mt19937 engine(
        static_cast<std::uint32_t>(name * 100003 + static_cast<std::uint64_t>(position) + t));
    for (std::int32_t c = 0; c < SmallModel::kHighway; ++c) {
      highway.push_back(static_cast<float>(engine()) * 0x1p-31F - 1.0F);
    }
  }
  return highway;
}

// A sequence of a test: its tokens, and the bits that came out of both layers so far.
struct Track {
  std::uint64_t name = 0;
  std::vector<std::int32_t> tokens;
  std::vector<float> out[2];
};

// Runs the staged step's layers over the tracks' next counts[i] tokens from positions[i], and
// appends the first kept[i] tokens' outputs to the tracks.
inline void run_tracks(pleiades::Step& step, std::span<Track* const> tracks,
                       std::span<const std::int64_t> positions, std::span<const std::size_t> counts,
                       std::span<const std::size_t> kept) {
  std::vector<float> input;
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    const auto part = highway_at(tracks[i]->name, positions[i], counts[i]);
    input.insert(input.end(), part.begin(), part.end());
  }
  for (std::size_t layer = 0; layer < 2; ++layer) {
    std::vector<float> output = input;
    if (!input.empty()) step.run(SmallModel::kLayers[layer], output);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < tracks.size(); ++i) {
      const auto from = output.begin() + static_cast<std::ptrdiff_t>(begin);
      auto& out = tracks[i]->out[layer];
      out.resize(static_cast<std::size_t>(positions[i]) * SmallModel::kHighway);
      out.insert(out.end(), from,
                 from + static_cast<std::ptrdiff_t>(kept[i] * SmallModel::kHighway));
      begin += counts[i] * SmallModel::kHighway;
    }
  }
}

// One step of one track: stages, runs and commits count tokens.
inline void advance(pleiades::Step& step, pleiades::Sequence& sequence, Track& track,
                    std::size_t count) {
  const std::int64_t position = sequence.position();
  step.stage(sequence, std::span(track.tokens).subspan(static_cast<std::size_t>(position), count));
  Track* const tracks[] = {&track};
  run_tracks(step, tracks, {{position}}, {{count}}, {{count}});
  step.commit();
}

}  // namespace ple::test
