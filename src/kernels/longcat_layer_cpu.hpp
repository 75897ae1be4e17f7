#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.hpp"
#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "kernels/longcat_layer.hpp"
#include "kernels/projection.hpp"

// LongCat's input embedding on the CPU. The output bits of a token do not depend on the other
// tokens of the step, nor on the thread count.

namespace ple::kernels {

class LongcatWeightsCpu {
 public:
  // Zero until the rows of the tables' projections are packed and the words are written.
  // rounds_each: as the steps will ask for.
  static Result<LongcatWeightsCpu> create(const LongcatShape& shape, bool rounds_each);

  // By table, [hidden, row_dim].
  std::vector<PackedMatrix>& projections() { return projections_; }
  const std::vector<PackedMatrix>& projections() const { return projections_; }

  // The word embedding, [vocab_size, hidden] bf16 bits.
  AlignedBuffer& words() { return words_; }
  const std::uint16_t* words() const { return words_.as<std::uint16_t>(); }

 private:
  std::vector<PackedMatrix> projections_;
  AlignedBuffer words_;
};

// Bytes of scratch for a step of token_count tokens: of a bounded tile, never less for more tokens.
std::size_t longcat_layer_scratch_bytes_cpu(const LongcatShape& shape, std::int32_t token_count);

Status longcat_layer_cpu(const LongcatLayerArgs& args, const LongcatWeightsCpu& weights,
                         ThreadPool& pool);

}  // namespace ple::kernels
