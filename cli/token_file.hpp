#pragma once

#include <cstdint>
#include <pleiades/pleiades.hpp>
#include <string>
#include <vector>

namespace pleiades::cli {

// A checkpoint, with the map from token id to code in token_map_file where that is not empty.
// Refuses a bare config, which open_model takes.
Model open_checkpoint(const std::string& path, const std::string& token_map_file = {});

// A checkpoint or a config, with the map from token id to code in token_map_file where that is not
// empty.
Model open_model(const std::string& path, const std::string& token_map_file = {});

// A file of little-endian u32 token ids. Refuses an empty file, half a token, and, by its place in
// the file, an id outside [0, vocab_size). 0xFFFFFFFF is a dead token, -1 here.
std::vector<std::int32_t> read_tokens(const std::string& path, std::int32_t vocab_size);

}  // namespace pleiades::cli
