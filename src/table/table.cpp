#include "table/table.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace ple {

namespace {

// Neighbouring blocks are read together up to this size: large enough for a bulk load to run at the
// device's bandwidth, small enough that the buffers of a deep ring can be pinned.
constexpr std::uint32_t kReadBytesMax = 16 << 10;

// The files that hold rows, and the table with its extents in them.
struct OpenedTable {
  TableSpec spec;
  std::vector<BlockFile> files;
};

Result<OpenedTable> open_files(const TableSpec& spec, std::span<const ModelFile> files,
                               DirectIo direct) {
  OpenedTable opened{.spec = spec};
  std::erase_if(opened.spec.shards, [](const ShardExtent& shard) { return shard.row_count == 0; });
  std::map<std::uint32_t, std::uint32_t> opened_index;
  for (ShardExtent& shard : opened.spec.shards) {
    if (shard.file_index >= files.size()) {
      return error(StatusCode::invalid_argument, "rows in file {} of {}", shard.file_index,
                   files.size());
    }
    const ModelFile& file = files[shard.file_index];
    const auto [found, is_new] =
        opened_index.try_emplace(shard.file_index, static_cast<std::uint32_t>(opened.files.size()));
    shard.file_index = found->second;
    if (!is_new) continue;
    PLE_TRY_ASSIGN(BlockFile block_file, BlockFile::open(file.path, direct));
    if (block_file.bytes() != file.bytes) {
      return error(StatusCode::corrupt, "file '{}' has {} bytes where {} are expected", file.path,
                   block_file.bytes(), file.bytes);
    }
    if (opened.files.size() == ReadPlan::kFileLimit || file.bytes >= ReadPlan::kOffsetLimit) {
      return error(StatusCode::unsupported, "file '{}' of {} bytes is too long, or one too many",
                   file.path, file.bytes);
    }
    opened.files.push_back(std::move(block_file));
  }
  return opened;
}

}  // namespace

class Table::Batch final : public RowReadBatch {
 public:
  explicit Batch(const Table& table)
      : table_(table), flight_(std::make_shared<RowFlight>(table.layout_)) {}

  bool done() const override { return flight_->closed(); }
  Status wait(std::chrono::nanoseconds deadline) override { return flight_->wait(deadline); }
  bool arrived(std::size_t index) const override { return flight_->arrived(index); }

  const Table& table() const { return table_; }

  // A flight to load: the last one, unless cancelled reads still hold it.
  const std::shared_ptr<RowFlight>& fresh_flight() {
    if (!flight_->is_landed()) flight_ = std::make_shared<RowFlight>(table_.layout_);
    return flight_;
  }

 private:
  const Table& table_;
  std::shared_ptr<RowFlight> flight_;
};

Result<std::unique_ptr<Table>> Table::open(const TableSpec& spec, std::span<const ModelFile> files,
                                           const TableOptions& options) {
  std::unique_ptr<Table> table(new Table);
  table->encoding_ = spec.encoding;
  PLE_TRY_ASSIGN(OpenedTable opened, open_files(spec, files, options.direct));
  TableLayout& layout = table->layout_;
  PLE_TRY_ASSIGN(layout.map, RowMap::make(opened.spec, opened.files));

  BlockReaderOptions reader_options = options.reader;
  const std::uint32_t block_bytes_max =
      std::max<std::uint32_t>(reader_options.block_bytes, AlignedBuffer::kPageBytes);
  // A row that straddles two blocks is read whole.
  reader_options.read_bytes_max =
      std::max(kReadBytesMax, layout.map.part_bytes_max() + 2 * block_bytes_max);
  PLE_TRY_ASSIGN(table->reader_, BlockReader::open(std::move(opened.files), reader_options));
  layout.files = table->reader_->files();
  layout.read_bytes_max = table->reader_->read_bytes_max();
  table->info_ = table->reader_->info();
  for (std::uint32_t file_index = 0; file_index < layout.files.size(); ++file_index) {
    PLE_TRY(table->choose_blocks(file_index, options.check_sums));
  }
  return table;
}

// With checksums whole blocks of theirs are read.
Status Table::choose_blocks(std::uint32_t file_index, bool check_sums) {
  const BlockFile& file = layout_.files[file_index];
  std::optional<BlockSums> sums;
  if (check_sums) {
    PLE_TRY_ASSIGN(sums, BlockSums::load(file.path(), file.bytes()));
  }
  std::uint32_t block_bytes = reader_->block_bytes(file_index);
  if (sums) block_bytes = std::max(block_bytes, BlockSums::kBlockBytes);
  checks_sums_ = sums.has_value() && (file_index == 0 || checks_sums_);
  info_.block_bytes = std::max(info_.block_bytes, block_bytes);
  layout_.block_bytes.push_back(block_bytes);
  layout_.sums.push_back(std::move(sums));
  return {};
}

std::shared_ptr<RowReadBatch> Table::make_batch() { return std::make_shared<Batch>(*this); }

Status Table::submit(std::span<const RowRead> reads, const std::shared_ptr<RowReadBatch>& batch) {
  auto* own = dynamic_cast<Batch*>(batch.get());
  if (own == nullptr || &own->table() != this) {
    return error(StatusCode::invalid_argument, "a batch of another row source");
  }
  if (!own->done()) {
    return error(StatusCode::wrong_state, "a batch was submitted again before it was done");
  }
  for (const RowRead& read : reads) {
    if (read.row >= row_count() || read.destination == nullptr) {
      return error(StatusCode::invalid_argument,
                   "row {} of a table of {} rows, or without a destination", read.row, row_count());
    }
  }
  const std::shared_ptr<RowFlight>& flight = own->fresh_flight();
  flight->load(reads);
  if (reads.empty()) return {};
  const Status submitted = reader_->submit(flight);
  if (!submitted.is_ok()) flight->unload();
  return submitted;
}

}  // namespace ple
