#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/status.hpp"

namespace ple {

// Makes `path`, or what a link there names, a file of these bytes, in one go: they are written
// beside it, brought to the disk and renamed. What is there and is no file is not replaced. A
// failure leaves what was there before.
Status replace_file(const std::string& path, std::span<const std::byte> bytes);

// Removes what processes left beside `path` that were killed while they replaced it.
void remove_partial_files(const std::string& path);

}  // namespace ple
