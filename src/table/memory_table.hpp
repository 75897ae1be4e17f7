#pragma once

#include <memory>

#include "base/status.hpp"
#include "checkpoint/model_spec.hpp"
#include "table/row_source.hpp"

namespace ple {

// Rows that the caller holds in memory (ShardExtent::data of every extent, one part). A submitted
// batch is done at once.
class MemoryTable : public RowSource {
 public:
  static Result<std::unique_ptr<RowSource>> open(const TableSpec& spec);

  std::uint64_t row_count() const override { return spec_.row_count; }
  RowEncoding encoding() const override { return spec_.encoding; }
  std::shared_ptr<RowReadBatch> make_batch() override;
  Status submit(std::span<const RowRead> reads,
                const std::shared_ptr<RowReadBatch>& batch) override;

 private:
  explicit MemoryTable(const TableSpec& spec) : spec_(spec) {}

  TableSpec spec_;
};

}  // namespace ple
