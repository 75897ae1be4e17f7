#include "table/memory_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"

namespace ple {

namespace {

class DoneBatch : public RowReadBatch {
 public:
  bool done() const override { return true; }
  Status wait(std::chrono::nanoseconds) override { return {}; }
  bool arrived(std::size_t) const override { return true; }
};

}  // namespace

Result<std::unique_ptr<RowSource>> MemoryTable::open(const TableSpec& spec) {
  for (const ShardExtent& shard : spec.shards) {
    if (shard.data == nullptr || shard.part != 0) {
      return error(StatusCode::unsupported,
                   "rows {} to {}: a table lies either in memory, in one part, or in files",
                   shard.row_begin, shard.row_begin + shard.row_count);
    }
  }
  return std::unique_ptr<RowSource>(new MemoryTable(spec));
}

std::shared_ptr<RowReadBatch> MemoryTable::make_batch() { return std::make_shared<DoneBatch>(); }

Status MemoryTable::submit(std::span<const RowRead> reads, const std::shared_ptr<RowReadBatch>&) {
  const auto row_bytes = static_cast<std::size_t>(spec_.encoding.row_bytes);
  for (const RowRead& read : reads) {
    // The extents are sorted and cover every row.
    const auto after = std::upper_bound(
        spec_.shards.begin(), spec_.shards.end(), std::uint64_t{read.row},
        [](std::uint64_t row, const ShardExtent& shard) { return row < shard.row_begin; });
    const ShardExtent& shard = *(after - 1);
    std::memcpy(read.destination, shard.data + (read.row - shard.row_begin) * row_bytes, row_bytes);
  }
  return {};
}

}  // namespace ple
