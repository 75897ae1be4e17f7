#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// Opens the checkpoint in a directory: config.json and safetensors files, one or many, with or
// without an index. Reads headers, constants and a few sampled rows, so it takes milliseconds
// whatever the table's size. Whatever is not exactly the public layout of a known family is refused
// with a sentence that names the file, the tensor and the numbers.
Result<ModelSpec> open_checkpoint(const std::string& directory);

// The geometry alone, from a config.json (a file, or a directory that holds one). Families that
// hash with a token map read it from beside the config, as open_checkpoint does (token_map.hpp).
Result<ModelSpec> open_config(const std::string& path);

// What open_config does with the bytes of a config. name stands for the file in messages.
Result<ModelSpec> parse_config(std::string_view json, const std::string& name);

// What remains once a ModelSpec holds its files, extents and tensors, be they from a checkpoint or
// from a caller with its own loader: checks the shape and type of every tensor, that the extents of
// each part cover every row once and lie inside their files, and sets the identities. Sizes of
// files that are 0 are taken from the system.
Status finish_model(ModelSpec& model);

// Sets the geometry identity alone, after a change of the hashes.
void set_geometry_identity(ModelSpec& model);

// The dense tensors of a layer, in a fixed order.
std::vector<TensorRef> dense_tensors(const LayerSpec& layer);

// The memory layer at a decoder layer; refuses by naming those there are.
Result<const LayerSpec*> find_layer(const ModelSpec& model, std::int32_t layer_index);

}  // namespace ple
