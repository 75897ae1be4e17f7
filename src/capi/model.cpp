#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/number_formats.hpp"
#include "capi/handles.hpp"
#include "checkpoint/checkpoint.hpp"
#include "checkpoint/token_map.hpp"
#include "kernels/gather_rows.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;
using capi::guarded;

std::uint64_t table_bytes(const LayerSpec& layer) {
  return layer.table.row_count * static_cast<std::uint64_t>(layer.table.encoding.row_bytes);
}

bool has_tensors(const ModelSpec& model) {
  return std::none_of(model.layers.begin(), model.layers.end(),
                      [](const LayerSpec& layer) { return layer.table.shards.empty(); });
}

Result<ModelSpec> open_path(const char* path) {
  struct stat info {};
  if (::stat(path, &info) == 0 && S_ISREG(info.st_mode)) return open_config(path);
  return open_checkpoint(path);
}

// What a family's layer takes and gives, for one token.
struct LayerSizes {
  std::int32_t hidden;
  std::int32_t stream_count;
  std::int64_t input_elements;
  std::int64_t output_elements;
  std::int32_t row_dim;  // as the config has it; a bare config has no table to ask
};

// Families that work on a stream.
template <class Parts>
LayerSizes sizes_of(const Parts& layer, std::int32_t column_count) {
  const std::int64_t highway = std::int64_t{layer.stream_count} * layer.hidden;
  return {layer.hidden, layer.stream_count, highway, highway, layer.embed_dim / column_count};
}
// The input embedding itself.
LayerSizes sizes_of(const LongcatLayer& layer, std::int32_t column_count) {
  return {layer.hidden, 1, 0, layer.hidden, layer.hidden / column_count};
}
LayerSizes sizes_of(const GemmaLayer& layer, std::int32_t) {
  const std::int32_t row_dim = layer.layer_count * layer.layer_dim;
  return {layer.hidden, 1, layer.hidden, row_dim, row_dim};
}

}  // namespace

ple_status ple_model_open(const char* path, ple_model** model) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(path, "path"));
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY_ASSIGN(ModelSpec spec, open_path(path));
    *model = new ple_model(std::make_shared<const ModelSpec>(std::move(spec)));
    return {};
  });
}

void ple_model_release(ple_model** model) {
  if (model == nullptr) return;
  delete *model;
  *model = nullptr;
}

ple_status ple_model_get_info(const ple_model* model, ple_model_info* info) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(info, "info"));
    const ModelSpec& spec = *model->spec;
    ple_model_info filled = PLE_MODEL_INFO_INIT;
    filled.family = static_cast<ple_family>(spec.family);
    filled.layer_count = static_cast<std::int32_t>(spec.layers.size());
    filled.vocab_size = static_cast<std::int32_t>(spec.vocab_size);
    filled.has_tensors = has_tensors(spec) ? 1 : 0;
    filled.identity = spec.geometry_identity ^ spec.weights_identity;
    for (const LayerSpec& layer : spec.layers) {
      filled.lookback = std::max(filled.lookback, layer.hash->lookback());
      filled.table_bytes += table_bytes(layer);
      for (const TensorRef& tensor : dense_tensors(layer)) filled.dense_bytes += tensor.bytes;
    }
    *info = filled;
    return {};
  });
}

ple_status ple_model_get_layer(const ple_model* model, int32_t index, ple_layer_info* info) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(info, "info"));
    const auto& layers = model->spec->layers;
    if (index < 0 || static_cast<std::size_t>(index) >= layers.size()) {
      return error(StatusCode::invalid_argument, "layer number {} of {}", index, layers.size());
    }
    const LayerSpec& layer = layers[static_cast<std::size_t>(index)];
    const std::int32_t column_count = layer.hash->column_count();
    const LayerSizes sizes =
        std::visit([&](const auto& parts) { return sizes_of(parts, column_count); }, layer.parts);
    const RowEncoding& encoding = layer.table.encoding;
    *info = {.struct_bytes = sizeof(ple_layer_info),
             .layer_index = layer.layer_index,
             .column_count = column_count,
             .row_dim = sizes.row_dim,
             .row_format = static_cast<ple_row_format>(encoding.format),
             .row_bytes = encoding.row_bytes,
             .row_count = layer.hash->row_count(),
             .table_bytes = table_bytes(layer),
             .shard_count = static_cast<std::int32_t>(layer.table.shards.size()),
             .hidden = sizes.hidden,
             .stream_count = sizes.stream_count,
             .window = carried_window(layer),
             .input_elements = sizes.input_elements,
             .output_elements = sizes.output_elements};
    return {};
  });
}

ple_status ple_model_get_shard(const ple_model* model, int32_t layer, int32_t shard_index,
                               ple_shard_info* info) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(info, "info"));
    PLE_TRY_ASSIGN(const LayerSpec* spec, find_layer(*model->spec, layer));
    const auto& shards = spec->table.shards;
    if (shard_index < 0 || static_cast<std::size_t>(shard_index) >= shards.size()) {
      return error(StatusCode::invalid_argument, "layer {}: shard {} of {}", layer, shard_index,
                   shards.size());
    }
    const ShardExtent& shard = shards[static_cast<std::size_t>(shard_index)];
    *info = {.struct_bytes = sizeof(ple_shard_info),
             .part = shard.part,
             .file = shard.data == nullptr ? model->spec->files[shard.file_index].path.c_str() : "",
             .offset = shard.offset,
             .row_begin = shard.row_begin,
             .row_count = shard.row_count};
    return {};
  });
}

ple_status ple_model_row_ids(const ple_model* model, int32_t layer, const int32_t* tokens,
                             int64_t token_count, uint32_t* row_ids) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    if (token_count < 0) {
      return error(StatusCode::invalid_argument, "token_count {}", token_count);
    }
    PLE_TRY_ASSIGN(const LayerSpec* spec, find_layer(*model->spec, layer));
    if (token_count == 0) return {};
    PLE_TRY(check_pointer(tokens, "tokens"));
    PLE_TRY(check_pointer(row_ids, "row_ids"));
    const std::span<const TokenId> ids(tokens, static_cast<std::size_t>(token_count));
    PLE_TRY(spec->hash->check(ids));
    spec->hash->row_ids({}, ids, row_ids);
    return {};
  });
}

ple_status ple_model_set_token_map(ple_model* model, const int32_t* codes, int64_t count) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_pointer(codes, "codes"));
    if (count < 0) return error(StatusCode::invalid_argument, "count {}", count);
    // Engines and sequences that are open share the spec, so the map goes into a new one.
    ModelSpec spec = *model->spec;
    PLE_TRY(set_token_map(spec, {codes, static_cast<std::size_t>(count)}));
    *model = ple_model(std::make_shared<const ModelSpec>(std::move(spec)));
    return {};
  });
}

ple_status ple_model_get_constants(const ple_model* model, int32_t layer,
                                   ple_hash_constants* constants) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(constants, "constants"));
    PLE_TRY_ASSIGN(const LayerSpec* spec, find_layer(*model->spec, layer));
    const std::size_t index = static_cast<std::size_t>(spec - model->spec->layers.data());
    const HashConstants& hash = model->constants[index];
    *constants = {.struct_bytes = sizeof(ple_hash_constants),
                  .multiplier_count = static_cast<std::int32_t>(hash.multipliers.size()),
                  .column_count = static_cast<std::int32_t>(hash.column_sizes.size()),
                  .reserved = 0,
                  .multipliers = hash.multipliers.data(),
                  .column_sizes = hash.column_sizes.data(),
                  .column_offsets = hash.column_offsets.data()};
    return {};
  });
}

ple_status ple_model_decode_rows(const ple_model* model, int32_t layer, const void* bytes,
                                 int64_t count, float* values) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    if (count < 0) return error(StatusCode::invalid_argument, "{} rows", count);
    PLE_TRY_ASSIGN(const LayerSpec* spec, find_layer(*model->spec, layer));
    if (count == 0) return {};
    PLE_TRY(check_pointer(bytes, "bytes"));
    PLE_TRY(check_pointer(values, "values"));
    const RowEncoding& encoding = spec->table.encoding;
    std::vector<std::uint16_t> row(static_cast<std::size_t>(encoding.dim));
    const auto* from = static_cast<const std::byte*>(bytes);
    for (std::int64_t i = 0; i < count; ++i) {
      kernels::decode_row_cpu(encoding, from + i * encoding.row_bytes, row.data());
      std::transform(row.begin(), row.end(), values + i * encoding.dim, bf16_to_f32);
    }
    return {};
  });
}
