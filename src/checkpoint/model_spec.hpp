#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "base/row_view.hpp"
#include "base/types.hpp"
#include "checkpoint/dtype.hpp"
#include "ngram/row_hash.hpp"

// What the library knows of a model: plain data, without an open file. It comes from a checkpoint
// (checkpoint.hpp), or a caller with its own loader fills it in.

namespace ple {

enum class Family : std::int32_t {
  qwen4_exp = 0,
  engram_v41 = 1,
  engram_demo = 2,
  longcat = 3,
  gemma = 4,
};

// A dense tensor: a range of a file, or, where data is set, the caller's memory (which must outlive
// the loading of the weights). Row-major, without gaps.
struct TensorRef {
  std::string name;
  DType dtype = DType::bf16;
  std::vector<std::int64_t> shape;
  std::uint32_t file_index = 0;
  std::uint64_t offset = 0;  // in the file
  std::uint64_t bytes = 0;
  const std::byte* data = nullptr;

  bool is_present() const { return bytes != 0; }
};

// Rows row_begin .. row_begin + row_count - 1 of a table, one after the other in a file, or, where
// data is set, in the caller's memory. Where a row's bytes lie in two tensors (codes and scales),
// part says which of them this is.
struct ShardExtent {
  std::uint32_t file_index = 0;
  std::uint32_t part = 0;
  std::uint64_t offset = 0;  // of row row_begin in the file
  std::uint64_t row_begin = 0;
  std::uint64_t row_count = 0;
  const std::byte* data = nullptr;  // row row_begin in the caller's memory, instead of a file
};

// A layer's table. Row r is the concatenation of its parts; part p is part_bytes[p] bytes at
// offset + (r - row_begin) * part_bytes[p] of the extent that holds r.
struct TableSpec {
  std::uint64_t row_count = 0;
  RowEncoding encoding;
  std::vector<std::uint32_t> part_bytes;  // their sum is encoding.row_bytes
  std::vector<ShardExtent> shards;        // by part, then by row; each part covers every row
};

// Family qwen4_exp (specification A): out = G + SiLU(conv(N)), norms with weight 1 + w.
struct Qwen4ExpLayer {
  std::int32_t hidden = 0;
  std::int32_t stream_count = 0;
  std::int32_t embed_dim = 0;  // column_count * row dim
  std::int32_t tap_count = 0;
  std::int32_t dilation = 0;
  float eps = 0.0F;

  TensorRef key;         // [stream_count * hidden, embed_dim]
  TensorRef value;       // [hidden, embed_dim]
  TensorRef norm_key;    // [stream_count * hidden]
  TensorRef norm_query;  // [stream_count * hidden]
  TensorRef norm_conv;   // [stream_count * hidden]
  TensorRef conv;        // [stream_count * hidden, 1, tap_count]
};

// DeepSeek V4.1 Engram (B.2): FP8 projection with E8M0 scales of 32x32 blocks, no conv.
struct EngramLayer {
  std::int32_t hidden = 0;
  std::int32_t stream_count = 0;
  std::int32_t embed_dim = 0;
  float eps = 0.0F;

  TensorRef key_value;        // [(stream_count + 1) * hidden, embed_dim], keys first
  TensorRef key_value_scale;  // [that / 32, embed_dim / 32]
  TensorRef query_weight;     // [stream_count, hidden]
  TensorRef key_weight;       // [stream_count, hidden]
};

// The Engram demo (B.1): projections with bias, plain norm weights, conv. Each vector holds one
// tensor a stream.
struct EngramDemoLayer {
  std::int32_t hidden = 0;
  std::int32_t stream_count = 0;
  std::int32_t embed_dim = 0;
  std::int32_t tap_count = 0;
  std::int32_t dilation = 0;
  float eps = 0.0F;       // of the key and query norms
  float conv_eps = 0.0F;  // of the norms before the conv

  std::vector<TensorRef> key;         // [hidden, embed_dim]
  std::vector<TensorRef> key_bias;    // [hidden]
  TensorRef value;                    // [hidden, embed_dim]
  TensorRef value_bias;               // [hidden]
  std::vector<TensorRef> norm_key;    // [hidden]
  std::vector<TensorRef> norm_query;  // [hidden]
  std::vector<TensorRef> norm_conv;   // [hidden]
  TensorRef conv;                     // [stream_count * hidden, 1, tap_count]
};

// LongCat (C): out = (E[t] + sum_i P_i row_i) / (1 + table_count). The tables are one TableSpec;
// table i begins where those before it end.
struct LongcatLayer {
  std::int64_t vocab_size = 0;
  std::int32_t hidden = 0;
  std::int32_t table_count = 0;
  std::vector<TokenId> ignored_tokens;  // ascending; these keep the plain word embedding

  TensorRef word_embedding;           // [vocab_size, hidden]
  std::vector<TensorRef> projection;  // [hidden, row dim], by table
};

// Gemma 3n and 4 (D): a row holds the token's embedding for every layer.
struct GemmaLayer {
  std::int32_t hidden = 0;
  std::int32_t layer_count = 0;
  std::int32_t layer_dim = 0;  // elements of a row that one layer uses
  float eps = 0.0F;
  bool scalars_in_bf16 = false;  // Gemma 3n rounds hidden^-0.5 and 2^-0.5, Gemma 4 does not

  TensorRef projection;       // [layer_count * layer_dim, hidden]
  TensorRef projection_norm;  // [layer_dim]
};

using LayerParts =
    std::variant<Qwen4ExpLayer, EngramLayer, EngramDemoLayer, LongcatLayer, GemmaLayer>;

struct LayerSpec {
  std::int32_t layer_index = 0;  // 0-based decoder layer; 0 where a table serves the input
  std::shared_ptr<const RowHash> hash;
  TableSpec table;
  LayerParts parts;
};

// One file of a model and the size it had when it was opened.
struct ModelFile {
  std::string path;
  std::uint64_t bytes = 0;
};

// Made from a bare config, a ModelSpec has the hashes and sizes of its layers, but no files,
// extents or tensors.
struct ModelSpec {
  Family family = Family::qwen4_exp;
  std::int64_t vocab_size = 0;
  std::vector<ModelFile> files;
  std::vector<LayerSpec> layers;  // by layer_index

  // Digests of the hash constants and sizes, and of the weights themselves (sampled rows and the
  // beginning of each dense tensor, whatever files they lie in). A snapshot is bound to both.
  std::uint64_t geometry_identity = 0;
  std::uint64_t weights_identity = 0;

  bool has_tensors() const { return weights_identity != 0; }
};

}  // namespace ple
