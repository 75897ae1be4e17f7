#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// The geometry of a qwen4_exp model (specification A.1), for callers that have no config.json.
struct Qwen4ExpConfig {
  std::int64_t vocab_size = 248320;
  std::int64_t hidden = 0;
  std::int64_t stream_count = 4;
  std::int64_t embed_dim = 0;  // width of a token's concatenated rows
  std::int64_t tap_count = 4;
  std::int64_t ngram_size = 3;  // also the dilation of the conv
  std::int64_t heads_per_ngram = 8;
  std::int64_t ngram_vocab_size_base = 20'000'000;
  std::int64_t row_divisor = 128;
  std::int64_t seed = 1234;
  std::int64_t eos_token = 0;
  double eps = 1e-6;
  std::vector<std::int64_t> layers;  // 0-based decoder layers, ascending; all that have a memory
};

// The model without tables and tensors: the caller fills in files, extents and tensors, and calls
// finish_model (checkpoint.hpp). name stands for the source in messages.
Result<ModelSpec> qwen4_exp_model(const Qwen4ExpConfig& config, const std::string& name);

}  // namespace ple
