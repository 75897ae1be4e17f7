#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "io/block_reader.hpp"
#include "table/row_flight.hpp"
#include "table/row_source.hpp"

namespace ple {

struct TableOptions {
  DirectIo direct = DirectIo::automatic;
  bool check_sums = true;  // where block checksums lie beside the files
  BlockReaderOptions reader;
};

// A layer's table, read in place from the checkpoint's files. A row is in a destination only when
// every byte of it came from the file that was opened, unchanged; otherwise it has not arrived, and
// the batch's status names the row, the file and what was wrong with it.
class Table final : public RowSource {
 public:
  static Result<std::unique_ptr<Table>> open(const TableSpec& spec,
                                             std::span<const ModelFile> files,
                                             const TableOptions& options);

  // The same for several layers. One reader serves all of them, in turns, and ends with the last.
  static Result<std::vector<std::unique_ptr<Table>>> open_all(
      std::span<const TableSpec* const> specs, std::span<const ModelFile> files,
      const TableOptions& options);

  std::uint64_t row_count() const override { return layout_->map.row_count(); }
  RowEncoding encoding() const override { return encoding_; }
  std::shared_ptr<RowReadBatch> make_batch() override;
  // Plans on the calling thread; allocates nothing once the batch has seen a submit as large. A
  // batch whose cancelled reads are still out may be used again as well.
  Status submit(std::span<const RowRead> reads,
                const std::shared_ptr<RowReadBatch>& batch) override;

  // Whether every row is checked against a block checksum before it is served.
  bool checks_sums() const;
  // Of the reader, which other tables may use as well.
  const BlockReaderInfo& reader_info() const { return files_->info; }
  const BlockReaderMetrics& reader_metrics() const { return files_->reader->metrics(); }

 private:
  class Batch;

  Table(const RowEncoding& encoding, RowMap map, std::shared_ptr<TableFiles> files);

  const RowEncoding encoding_;
  const std::shared_ptr<TableFiles> files_;
  const std::shared_ptr<const TableLayout> layout_;
};

}  // namespace ple
