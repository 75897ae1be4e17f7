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

  std::uint64_t row_count() const override { return layout_.map.row_count(); }
  RowEncoding encoding() const override { return encoding_; }
  std::shared_ptr<RowReadBatch> make_batch() override;
  // Plans on the calling thread; allocates nothing once the batch has seen a submit as large. A
  // batch whose cancelled reads are still out may be used again as well.
  Status submit(std::span<const RowRead> reads,
                const std::shared_ptr<RowReadBatch>& batch) override;

  // Whether every row is checked against a block checksum before it is served.
  bool checks_sums() const { return checks_sums_; }
  const BlockReaderInfo& reader_info() const { return info_; }
  const BlockReaderMetrics& reader_metrics() const { return reader_->metrics(); }

 private:
  class Batch;

  Table() = default;
  Status choose_blocks(std::uint32_t file_index, bool check_sums);

  RowEncoding encoding_;
  TableLayout layout_;
  BlockReaderInfo info_;
  bool checks_sums_ = false;
  std::unique_ptr<BlockReader> reader_;  // last: its threads use the layout
};

}  // namespace ple
