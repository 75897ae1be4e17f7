#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <pleiades/pleiades.hpp>
#include <span>
#include <vector>

namespace pleiades::cli {

// Streams sequences of equal length through one layer, all of them side by side in every step: a
// prefill in chunks, then tokens one at a time. While a chunk of the prefill runs, the next one is
// staged already, so that its rows arrive meanwhile; a decoded token is staged when its turn comes,
// as in real decoding.
class LayerStream {
 public:
  struct Options {
    ple_element element = PLE_F32;
    ple_output_mode mode = PLE_OUTPUT_UPDATE;
    std::int64_t chunk = 512;       // tokens of one sequence in a step of the prefill
    std::int64_t decode_count = 0;  // the last tokens of each sequence, one a step
    bool is_lookahead = true;
  };

  // One step: what it took, and the microseconds of its phases.
  struct Record {
    std::int64_t position;
    std::int64_t token_count;  // of each sequence
    bool is_decode;
    double stage_us;
    double wait_us;
    double run_us;
    double commit_us;

    double total_us() const { return stage_us + wait_us + run_us + commit_us; }
  };

  // The tensors of a step hold its sequences one after the other: [sequence_count, token_count,
  // elements of a token].
  struct Callbacks {
    std::function<void(std::int64_t position, std::int64_t token_count, void* input)> fill;
    std::function<void(std::int64_t position, std::int64_t token_count, const void* output)> drain;
    std::function<void(const Record&)> step_done;
  };

  LayerStream(Engine& engine, const ple_layer_info& layer, const Options& options);

  // sequences: the tokens of each, all equally many. Every call begins new timelines at position 0.
  void run(std::span<const std::vector<std::int32_t>> sequences, const Callbacks& callbacks);

 private:
  Engine& engine_;
  ple_layer_info layer_;
  Options options_;
};

}  // namespace pleiades::cli
