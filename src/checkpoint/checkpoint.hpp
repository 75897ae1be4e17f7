#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// Opens the checkpoint in a directory: config.json and safetensors files, one or many, with or
// without an index. Reads headers, constants and a few sampled rows, so it takes milliseconds
// whatever the table's size. Refuses, with a sentence that names the file, the tensor and the
// numbers: everything that is not exactly the public layout of a known family.
Result<ModelSpec> open_checkpoint(const std::string& directory);

// The geometry alone, from a config.json (a file, or a directory that holds one). Families whose
// ids need a token map read it from beside the config.
Result<ModelSpec> open_config(const std::string& path);

// What open_config does with the bytes of a config. name stands for the file in messages.
Result<ModelSpec> parse_config(std::string_view json, const std::string& name);

// Checks a ModelSpec, made by open_checkpoint or by a caller with its own loader, before an engine
// uses it: shapes and types of every tensor, and that the extents of each part cover every row
// once, inside their files.
Status validate(const ModelSpec& model);

}  // namespace ple
