#pragma once

#include <span>
#include <string>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/engine.hpp"

namespace ple {

// The ids of the rows that were hot when an engine closed, so that the next one reads them back in
// the background (docs/warm-start-format.md). Saving replaces the file in one go.
Status save_warm_start(const std::string& path, const ModelSpec& model,
                       std::span<const EngineLayer> layers);

// Starts reading the rows named in the file. not_found when there is none yet; refuses a file of
// another model or a damaged one.
Status load_warm_start(const std::string& path, const ModelSpec& model,
                       std::span<const EngineLayer> layers);

}  // namespace ple
