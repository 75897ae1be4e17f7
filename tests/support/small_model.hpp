#pragma once

#include <pleiades/pleiades.hpp>

#include <cstdint>
#include <span>
#include <vector>

#include "support/random_model.hpp"

namespace ple::test {

// A random model of the default sizes: two layers.
class SmallModel : public RandomModel {
 public:
  static constexpr std::int32_t kColumns = 4;
  static constexpr std::int32_t kRowDim = 12;
  static constexpr std::int32_t kHighway = 120;
  static constexpr std::int32_t kLayers[2] = {1, 3};
  static constexpr std::uint64_t kRowCounts[2] = {152, 224};

  explicit SmallModel(std::uint64_t seed) : RandomModel({}, seed) {}
};

inline std::vector<float> highway_at(std::uint64_t name, std::int64_t position,
                                     std::size_t token_count) {
  return highway_at(name, position, token_count, SmallModel::kHighway);
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
