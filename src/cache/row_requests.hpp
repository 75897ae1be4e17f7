#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"

namespace ple {

// Ok if every id is kNoRow or below row_count.
Status check_row_ids(std::span<const RowId> ids, std::uint64_t row_count);

// Ok if a step of ids fits where ids_max were reserved at bytes_per_id.
Status check_step(std::size_t ids, std::size_t ids_max, std::uint64_t bytes_per_id);

// row_bytes rounded up to what slots are aligned to.
std::uint32_t slot_bytes_of(const RowEncoding& encoding);

}  // namespace ple
