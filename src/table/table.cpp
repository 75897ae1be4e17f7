#include "table/table.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/aligned_buffer.hpp"
#include "base/error.hpp"

namespace ple {

namespace {

// Neighbouring blocks are read together up to this size: large enough for a bulk load to run at the
// device's bandwidth, small enough that the buffers of a deep ring can be pinned.
constexpr std::uint32_t kReadBytesMax = 16 << 10;

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
  if (files.size() > ReadPlan::kFileLimit) {
    return error(StatusCode::unsupported, "a table in {} files: at most {} are possible",
                 files.size(), ReadPlan::kFileLimit);
  }
  std::vector<BlockFile> opened;
  for (const ModelFile& file : files) {
    PLE_TRY_ASSIGN(BlockFile block_file, BlockFile::open(file.path, options.direct));
    if (block_file.bytes() != file.bytes || block_file.bytes() >= ReadPlan::kOffsetLimit) {
      return error(StatusCode::corrupt, "file '{}' has {} bytes where {} are expected", file.path,
                   block_file.bytes(), file.bytes);
    }
    opened.push_back(std::move(block_file));
  }
  TableLayout& layout = table->layout_;
  PLE_TRY_ASSIGN(layout.map, RowMap::make(spec, opened));

  BlockReaderOptions reader_options = options.reader;
  const std::uint32_t block_bytes_max =
      std::max<std::uint32_t>(reader_options.block_bytes, AlignedBuffer::kPageBytes);
  // A row that straddles two blocks is read whole.
  reader_options.read_bytes_max =
      std::max(kReadBytesMax, layout.map.part_bytes_max() + 2 * block_bytes_max);
  PLE_TRY_ASSIGN(table->reader_, BlockReader::open(std::move(opened), reader_options));
  layout.files = table->reader_->files();
  layout.read_bytes_max = table->reader_->read_bytes_max();
  for (std::uint32_t file_index = 0; file_index < files.size(); ++file_index) {
    layout.block_bytes.push_back(table->reader_->block_bytes(file_index));
  }
  layout.sums.resize(files.size());
  if (options.check_sums) PLE_TRY(table->load_sums(spec));
  return table;
}

// Of the files that hold rows.
Status Table::load_sums(const TableSpec& spec) {
  checks_sums_ = true;
  for (const ShardExtent& shard : spec.shards) {
    std::optional<BlockSums>& sums = layout_.sums[shard.file_index];
    if (shard.row_count == 0 || sums) continue;
    const BlockFile& file = layout_.files[shard.file_index];
    PLE_TRY_ASSIGN(sums, BlockSums::load(file.path(), file.bytes()));
    std::uint32_t& block_bytes = layout_.block_bytes[shard.file_index];
    if (sums) block_bytes = std::max(block_bytes, BlockSums::kBlockBytes);
    checks_sums_ &= sums.has_value();
  }
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
