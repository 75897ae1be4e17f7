#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"
#include "checkpoint/model_spec.hpp"

namespace ple {

// The map from token id to code that Engram models hash with. It is data, made once from a
// tokenizer, and lies beside the config as token_map.safetensors (tensor `token_map`, I32 [vocab])
// or token_map.i32 (the same numbers, raw and little-endian).

// Reads a map; a file name that ends in .safetensors says which form it has.
Result<std::vector<TokenId>> read_token_map(const std::string& path);

// Gives the map to every layer of the model that hashes with one; refused, leaving the model as it
// was, where its size or its number of codes is not the model's, or no layer takes one.
Status set_token_map(ModelSpec& model, std::span<const TokenId> codes);

// Gives the model the map in the directory of its config, if it wants one and it is there.
Status find_token_map(const std::string& directory, ModelSpec& model);

}  // namespace ple
