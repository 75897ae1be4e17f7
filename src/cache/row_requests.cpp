#include "cache/row_requests.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace ple {

Status check_row_ids(std::span<const RowId> ids, std::uint64_t row_count) {
  static_assert(kNoRow + 1 == 0);
  const auto limit = static_cast<RowId>(std::min<std::uint64_t>(row_count, kNoRow));
  const auto is_beyond = [limit](RowId row) { return row + 1 > limit; };
  RowId any_beyond = 0;  // in the ids' type, so that a vector of them is compared at once
  for (const RowId row : ids) any_beyond |= static_cast<RowId>(is_beyond(row));
  if (any_beyond == 0) return {};
  return error(StatusCode::invalid_argument, "row {} of a table of {} rows",
               *std::find_if(ids.begin(), ids.end(), is_beyond), row_count);
}

std::uint32_t slot_bytes_of(const RowEncoding& encoding) {
  return (static_cast<std::uint32_t>(encoding.row_bytes) + 15) / 16 * 16;
}

Status check_step(std::size_t ids, std::size_t ids_max, std::uint64_t bytes_per_id) {
  if (ids <= ids_max) return {};
  return error(StatusCode::invalid_argument,
               "a step of {} row ids, where {} were reserved; room for it costs {} bytes", ids,
               ids_max, ids * bytes_per_id);
}

}  // namespace ple
