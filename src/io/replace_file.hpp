#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.hpp"

namespace ple {

// Makes `path` a file of these bytes, in one go: they are written beside it, brought to the disk
// and renamed. A failure leaves what was there before.
Status replace_file(const std::string& path, std::span<const std::byte> bytes);

}  // namespace ple
