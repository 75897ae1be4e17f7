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

// The model's files that hold rows, each opened once.
class OpenedFiles {
 public:
  OpenedFiles(std::span<const ModelFile> files, DirectIo direct) : files_(files), direct_(direct) {}

  // Opens what the table needs; the table with its extents in the opened files.
  Result<TableSpec> open(const TableSpec& spec) {
    TableSpec placed = spec;
    std::erase_if(placed.shards, [](const ShardExtent& shard) { return shard.row_count == 0; });
    for (ShardExtent& shard : placed.shards) {
      PLE_TRY_ASSIGN(shard.file_index, open_once(shard.file_index));
    }
    return placed;
  }

  std::vector<BlockFile>& files() { return opened_; }

 private:
  Result<std::uint32_t> open_once(std::uint32_t file_index) {
    if (file_index >= files_.size()) {
      return error(StatusCode::invalid_argument, "rows in file {} of {}", file_index,
                   files_.size());
    }
    const ModelFile& file = files_[file_index];
    const auto opened_index = static_cast<std::uint32_t>(opened_.size());
    const auto [found, is_new] = opened_index_.try_emplace(file_index, opened_index);
    if (!is_new) return found->second;
    PLE_TRY_ASSIGN(BlockFile block_file, BlockFile::open(file.path, direct_));
    if (block_file.bytes() != file.bytes) {
      return error(StatusCode::corrupt, "file '{}' has {} bytes where {} are expected", file.path,
                   block_file.bytes(), file.bytes);
    }
    if (opened_.size() == ReadPlan::kFileLimit || file.bytes >= ReadPlan::kOffsetLimit) {
      return error(StatusCode::unsupported, "file '{}' of {} bytes is too long, or one too many",
                   file.path, file.bytes);
    }
    opened_.push_back(std::move(block_file));
    return opened_index;
  }

  std::span<const ModelFile> files_;
  DirectIo direct_;
  std::vector<BlockFile> opened_;
  std::map<std::uint32_t, std::uint32_t> opened_index_;  // by the file's number in the model
};

// Starts the reader. A row that straddles two blocks is read whole; with checksums whole blocks of
// theirs are read.
Status start_reader(TableFiles& shared, std::vector<BlockFile> files, std::uint32_t part_bytes_max,
                    const TableOptions& options) {
  BlockReaderOptions reader_options = options.reader;
  const std::uint32_t block_bytes_max =
      std::max<std::uint32_t>(reader_options.block_bytes, AlignedBuffer::kPageBytes);
  reader_options.read_bytes_max = std::max(kReadBytesMax, part_bytes_max + 2 * block_bytes_max);
  PLE_TRY_ASSIGN(shared.reader, BlockReader::open(std::move(files), reader_options));
  shared.info = shared.reader->info();
  for (std::uint32_t file_index = 0; file_index < shared.reader->files().size(); ++file_index) {
    const BlockFile& file = shared.file(file_index);
    std::optional<BlockSums>& sums = shared.sums.emplace_back();
    if (options.check_sums) {
      PLE_TRY_ASSIGN(sums, BlockSums::load(file.path(), file.bytes()));
    }
    std::uint32_t& block_bytes = shared.block_bytes.emplace_back();
    block_bytes = shared.reader->block_bytes(file_index);
    if (sums) block_bytes = std::max(block_bytes, BlockSums::kBlockBytes);
    shared.info.block_bytes = std::max(shared.info.block_bytes, block_bytes);
  }
  return {};
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

Table::Table(const RowEncoding& encoding, RowMap map, std::shared_ptr<TableFiles> files)
    : encoding_(encoding),
      files_(std::move(files)),
      layout_(std::make_shared<const TableLayout>(TableLayout{std::move(map), *files_})) {}

Result<std::unique_ptr<Table>> Table::open(const TableSpec& spec, std::span<const ModelFile> files,
                                           const TableOptions& options) {
  const TableSpec* const one = &spec;
  PLE_TRY_ASSIGN(auto tables, open_all({&one, 1}, files, options));
  return std::move(tables.front());
}

Result<std::vector<std::unique_ptr<Table>>> Table::open_all(std::span<const TableSpec* const> specs,
                                                            std::span<const ModelFile> files,
                                                            const TableOptions& options) {
  std::vector<std::unique_ptr<Table>> tables;
  if (specs.empty()) return tables;
  OpenedFiles opened(files, options.direct);
  const auto shared = std::make_shared<TableFiles>();
  std::uint32_t part_bytes_max = 0;
  for (const TableSpec* spec : specs) {
    PLE_TRY_ASSIGN(const TableSpec placed, opened.open(*spec));
    PLE_TRY_ASSIGN(RowMap map, RowMap::make(placed, opened.files()));
    part_bytes_max = std::max(part_bytes_max, map.part_bytes_max());
    std::unique_ptr<Table> table(new Table(spec->encoding, std::move(map), shared));
    tables.push_back(std::move(table));
  }
  PLE_TRY(start_reader(*shared, std::move(opened.files()), part_bytes_max, options));
  return tables;
}

bool Table::checks_sums() const {
  return std::all_of(files_->sums.begin(), files_->sums.end(),
                     [](const std::optional<BlockSums>& sums) { return sums.has_value(); });
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
  const Status submitted = files_->reader->submit(flight);
  if (!submitted.is_ok()) flight->unload();
  return submitted;
}

}  // namespace ple
