#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <pleiades/pleiades.hpp>
#include <string>

namespace pleiades::cli {

// Options that several commands share. Each function declares them on a command; the parser fills
// the targets, which must outlive the parsing.

// --json: one JSON object on standard output instead of text.
void add_json(CLI::App& command, bool& json);

// NAME BYTES, where BYTES may end in K, M, G, T (KiB or K: 1024; KB: 1000).
void add_bytes(CLI::App& command, const std::string& name, std::uint64_t& bytes,
               const std::string& help);

void add_optional_bytes(CLI::App& command, const std::string& name,
                        std::optional<std::uint64_t>& bytes, const std::string& help);

// --layer: the 0-based decoder layer; may be left out where the model has one memory layer.
void add_layer(CLI::App& command, std::optional<std::int32_t>& layer);

// --token-map: the map from token id to code that some families hash with.
void add_token_map(CLI::App& command, std::string& file);

// --device --arithmetic --arena --cache-bytes --threads --io --io-depth ...
void add_engine_options(CLI::App& command, EngineOptions& options);

// --element: the highway's type.
void add_element(CLI::App& command, ple_element& element);

// The part of them that reading needs: --io --io-depth --io-threads --read-deadline-ms.
void add_io_options(CLI::App& command, EngineOptions& options);

// The layer that was asked for, or the only one; refuses by naming those there are.
ple_layer_info choose_layer(const Model& model, const std::string& path,
                            std::optional<std::int32_t> layer);

}  // namespace pleiades::cli
