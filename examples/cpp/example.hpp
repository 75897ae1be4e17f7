#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <pleiades/pleiades.hpp>
#include <span>
#include <vector>

// What the examples share: made-up tokens, and a made-up highway that depends on token and position
// alone, so that the same tokens must give the same bits however they are batched.

using Tokens = std::vector<std::int32_t>;

inline Tokens some_tokens(std::int32_t count, std::int32_t seed = 11) {
  Tokens tokens(static_cast<std::size_t>(count));
  for (std::int32_t i = 0; i < count; ++i) {
    tokens[static_cast<std::size_t>(i)] = (i * 37 + seed * 101) % 500;
  }
  return tokens;
}

inline std::vector<float> highway_of(std::span<const std::int32_t> tokens, std::int64_t position,
                                     std::int64_t width) {
  std::vector<float> highway;
  for (const std::int32_t token : tokens) {
    for (std::int64_t i = 0; i < width; ++i) {
      const std::int64_t mixed = (token * 31 + position) * 7919 + i * 104729;
      highway.push_back(static_cast<float>(mixed % 1009) / 504.5F - 1);
    }
    ++position;
  }
  return highway;
}

// One step of one sequence through its first memory layer.
inline std::vector<float> forward(pleiades::Step& step, pleiades::Sequence& sequence,
                                  const ple_layer_info& layer,
                                  std::span<const std::int32_t> tokens) {
  auto highway = highway_of(tokens, sequence.position(), layer.input_elements);
  step.stage(sequence, tokens);
  step.run(layer.layer_index, highway);
  step.commit();
  return highway;
}

// The last `count` tokens' part of a highway.
inline std::vector<float> tail(const std::vector<float>& highway, const ple_layer_info& layer,
                               std::int64_t count) {
  return {highway.end() - count * layer.output_elements, highway.end()};
}

inline void expect(bool holds, const char* what) {
  std::printf("%s: %s\n", what, holds ? "yes" : "NO");
  if (!holds) std::exit(1);
}

// Runs an example's body on the checkpoint named by its only argument.
template <class Body>
int example(int argc, char** argv, const Body& body) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s CHECKPOINT\n", argv[0]), 2;
  try {
    body(pleiades::Model::open(argv[1]));
    return 0;
  } catch (const pleiades::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 1;
  }
}
