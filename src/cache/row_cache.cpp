#include "cache/row_cache.hpp"

#include "base/error.hpp"
#include "cache/resident_cache.hpp"
#include "cache/set_cache.hpp"

namespace ple {

Result<std::unique_ptr<RowCache>> RowCache::open(RowSource& source,
                                                 const RowCacheOptions& options) {
  if (source.row_count() >= kNoRow) {
    return error(StatusCode::unsupported, "a table of {} rows; at most {} can be told apart",
                 source.row_count(), kNoRow - 1);
  }
  if (source.encoding().row_bytes <= 0) {
    return error(StatusCode::invalid_argument, "rows of {} bytes", source.encoding().row_bytes);
  }
  if (options.resident) return ResidentCache::open(source, options);
  return SetCache::open(source, options);
}

}  // namespace ple
