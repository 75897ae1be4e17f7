#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "capi/handles.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/qwen4_exp.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;

TensorRef tensor_of(const char* name, const std::uint16_t* data, std::vector<std::int64_t> shape) {
  TensorRef tensor;
  tensor.name = name;
  tensor.dtype = DType::bf16;
  tensor.bytes = sizeof(std::uint16_t);
  for (const std::int64_t extent : shape) tensor.bytes *= static_cast<std::uint64_t>(extent);
  tensor.shape = std::move(shape);
  tensor.data = reinterpret_cast<const std::byte*>(data);
  return tensor;
}

// The number of a file in the model's list, added when it is new.
std::uint32_t file_index_of(const char* path, std::vector<ModelFile>& files) {
  const auto known = std::find_if(files.begin(), files.end(),
                                  [&](const ModelFile& file) { return file.path == path; });
  if (known != files.end()) return static_cast<std::uint32_t>(known - files.begin());
  files.push_back({.path = path, .bytes = 0});
  return static_cast<std::uint32_t>(files.size() - 1);
}

Status describe_table(const ple_layer_desc& desc, std::int32_t embed_dim, ModelSpec& model,
                      LayerSpec& layer) {
  TableSpec& table = layer.table;
  PLE_TRY(capi::check_enum(desc.row_format, PLE_ROW_NVFP4, "row_format"));
  if (desc.row_format != PLE_ROW_BF16 && desc.row_format != PLE_ROW_FP8_E4M3) {
    return error(StatusCode::unsupported, "layer {}: row_format {} of a described model",
                 desc.layer_index, static_cast<int>(desc.row_format));
  }
  table.row_count = layer.hash->row_count();
  table.encoding.dim = embed_dim / layer.hash->column_count();
  table.encoding.format = static_cast<RowFormat>(desc.row_format);
  table.encoding.row_bytes = encoded_row_bytes(table.encoding.format, table.encoding.dim);
  const bool has_scale = desc.row_format == PLE_ROW_FP8_E4M3;
  if (has_scale && !(std::isfinite(desc.row_scale) && desc.row_scale > 0)) {
    return error(StatusCode::invalid_argument, "layer {}: row_scale is {}", desc.layer_index,
                 desc.row_scale);
  }
  table.encoding.scale = has_scale ? desc.row_scale : 1.0F;
  table.part_bytes = {static_cast<std::uint32_t>(table.encoding.row_bytes)};
  if (desc.shard_count < 1) {
    return error(StatusCode::invalid_argument, "layer {}: shard_count {}", desc.layer_index,
                 desc.shard_count);
  }
  PLE_TRY(check_pointer(desc.shards, "layer.shards"));
  for (std::int32_t i = 0; i < desc.shard_count; ++i) {
    const ple_shard_desc& from = desc.shards[i];
    if ((from.file == nullptr) == (from.data == nullptr)) {
      return error(StatusCode::invalid_argument,
                   "layer {}: shard {} must have either a file or data", desc.layer_index, i);
    }
    ShardExtent shard;
    shard.row_begin = from.row_begin;
    shard.row_count = from.row_count;
    if (from.data != nullptr) {
      shard.data = static_cast<const std::byte*>(from.data) + from.offset;
    } else {
      shard.offset = from.offset;
      shard.file_index = file_index_of(from.file, model.files);
    }
    table.shards.push_back(shard);
  }
  std::sort(table.shards.begin(), table.shards.end(),
            [](const auto& a, const auto& b) { return a.row_begin < b.row_begin; });
  return {};
}

Status describe_layer(const ple_layer_desc& desc, ModelSpec& model, LayerSpec& layer) {
  PLE_TRY(check_struct(&desc, "layer"));
  for (const void* weight :
       {desc.key, desc.value, desc.norm_key, desc.norm_query, desc.norm_conv, desc.conv}) {
    PLE_TRY(check_pointer(weight, "a weight of the layer"));
  }
  auto& parts = std::get<Qwen4ExpLayer>(layer.parts);
  const std::int64_t highway = std::int64_t{parts.stream_count} * parts.hidden;
  parts.key = tensor_of("key", desc.key, {highway, parts.embed_dim});
  parts.value = tensor_of("value", desc.value, {parts.hidden, parts.embed_dim});
  parts.norm_key = tensor_of("norm_key", desc.norm_key, {highway});
  parts.norm_query = tensor_of("norm_query", desc.norm_query, {highway});
  parts.norm_conv = tensor_of("norm_conv", desc.norm_conv, {highway});
  parts.conv = tensor_of("conv", desc.conv, {highway, 1, parts.tap_count});
  return describe_table(desc, parts.embed_dim, model, layer);
}

Result<ModelSpec> describe(const ple_model_desc& desc) {
  if (desc.layer_count < 1) {
    return error(StatusCode::invalid_argument, "layer_count {}", desc.layer_count);
  }
  PLE_TRY(check_pointer(desc.layers, "desc.layers"));
  Qwen4ExpConfig config;
  config.vocab_size = desc.vocab_size;
  config.hidden = desc.hidden;
  config.stream_count = desc.stream_count;
  config.embed_dim = desc.embed_dim;
  config.tap_count = desc.tap_count;
  config.ngram_size = desc.ngram_size;
  config.heads_per_ngram = desc.heads_per_ngram;
  config.ngram_vocab_size_base = desc.ngram_vocab_size_base;
  config.row_divisor = desc.row_count_divisor;
  config.seed = desc.seed;
  config.eos_token = desc.eos_token_id;
  config.eps = static_cast<double>(desc.eps);
  for (std::int32_t i = 0; i < desc.layer_count; ++i) {
    config.layers.push_back(desc.layers[i].layer_index);
  }
  PLE_TRY_ASSIGN(ModelSpec model, qwen4_exp_model(config, "described model"));
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    PLE_TRY(describe_layer(desc.layers[i], model, model.layers[i]));
  }
  PLE_TRY(finish_model(model));
  return model;
}

}  // namespace

ple_status ple_model_describe(const ple_model_desc* desc, ple_model** model) {
  return capi::guarded([&]() -> Status {
    PLE_TRY(check_struct(desc, "desc"));
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY_ASSIGN(ModelSpec spec, describe(*desc));
    *model = new ple_model(std::make_shared<const ModelSpec>(std::move(spec)));
    return {};
  });
}
