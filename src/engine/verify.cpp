#include "engine/verify.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "cache/row_cache.hpp"
#include "kernels/gather_rows.hpp"
#include "table/table.hpp"

namespace ple {

namespace {

constexpr std::uint64_t kRowsPerBatch = 16384;
constexpr std::size_t kSampleSteps = 64;
constexpr std::size_t kSampleStepRows = 256;
constexpr std::uint64_t kSampleCacheBytes = 64 << 10;
constexpr std::chrono::seconds kDeadline(30);

// bf16 values with all exponent bits set are infinite or not a number.
bool is_finite(std::span<const std::uint16_t> row) {
  return std::none_of(row.begin(), row.end(),
                      [](std::uint16_t bits) { return (bits & 0x7F80) == 0x7F80; });
}

class LayerVerifier {
 public:
  LayerVerifier(const LayerSpec& layer, Table& table, VerifyReport& report)
      : layer_(layer),
        table_(table),
        report_(report),
        row_bytes_(static_cast<std::size_t>(layer.table.encoding.row_bytes)) {}

  Status check_all(const Progress& progress, std::uint64_t done, std::uint64_t total) {
    std::vector<std::byte> bytes(kRowsPerBatch * row_bytes_);
    std::vector<RowId> rows;
    const auto batch = table_.make_batch();
    for (std::uint64_t begin = 0; begin < table_.row_count(); begin += kRowsPerBatch) {
      rows.resize(std::min(kRowsPerBatch, table_.row_count() - begin));
      std::iota(rows.begin(), rows.end(), static_cast<RowId>(begin));
      PLE_TRY(read(rows, bytes.data(), batch));
      for (std::size_t i = 0; i < rows.size(); ++i)
        check_row(rows[i], bytes.data() + i * row_bytes_);
      if (!progress(done + begin + rows.size(), total)) {
        return error(StatusCode::wrong_state, "stopped after {} of {} rows", done + begin, total);
      }
    }
    return {};
  }

  // Pseudo-random rows, with repeats, so that the cache evicts, hits and stages.
  Status check_sample() {
    PLE_TRY_ASSIGN(const auto cache, RowCache::open(table_, {.cache_bytes = kSampleCacheBytes}));
    PLE_TRY_ASSIGN(const auto staged, cache->make_staged(kSampleStepRows));
    std::vector<std::byte> bytes(kSampleStepRows * row_bytes_);
    std::vector<RowId> distinct;
    const auto batch = table_.make_batch();
    std::uint64_t state = 0;
    for (std::size_t step = 0; step < kSampleSteps; ++step) {
      std::vector<RowId> rows(kSampleStepRows);
      for (RowId& row : rows) {
        state = state * 6364136223846793005U + 1442695040888963407U;
        row = static_cast<RowId>((state >> 33) % table_.row_count());
      }
      rows.front() = static_cast<RowId>(table_.row_count() - 1);
      std::sort(rows.begin(), rows.end());
      rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
      PLE_TRY(read(rows, bytes.data(), batch));
      PLE_TRY(cache->stage(rows, *staged));
      const Status arrived = staged->wait();
      for (std::size_t i = 0; arrived.is_ok() && i < rows.size(); ++i) {
        const std::byte* cached = kernels::row_bytes_of(staged->view(), staged->slots()[i]);
        ++report_.sample_rows;
        if (std::memcmp(cached, bytes.data() + i * row_bytes_, row_bytes_) != 0) {
          ++report_.sample_mismatches;
        }
      }
      staged->release();
      PLE_TRY(arrived);
    }
    return {};
  }

 private:
  Status read(std::span<const RowId> rows, std::byte* bytes,
              const std::shared_ptr<RowReadBatch>& batch) {
    reads_.clear();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      reads_.push_back({rows[i], bytes + i * row_bytes_});
    }
    PLE_TRY(table_.submit(reads_, batch));
    return batch->wait(kDeadline);
  }

  void check_row(RowId row, const std::byte* bytes) {
    values_.resize(static_cast<std::size_t>(layer_.table.encoding.dim));
    kernels::decode_row_cpu(layer_.table.encoding, bytes, values_.data());
    ++report_.rows_checked;
    if (is_finite(values_)) return;
    if (report_.rows_not_finite++ == 0) {
      report_.first_bad_row = row;
      report_.first_bad_layer = layer_.layer_index;
    }
  }

  const LayerSpec& layer_;
  Table& table_;
  VerifyReport& report_;
  std::size_t row_bytes_;
  std::vector<RowRead> reads_;
  std::vector<std::uint16_t> values_;
};

}  // namespace

Result<VerifyReport> verify(const ModelSpec& model, const Progress& progress) {
  VerifyReport report;
  std::uint64_t total = 0;
  for (const LayerSpec& layer : model.layers) total += layer.table.row_count;
  std::uint64_t done = 0;
  for (const LayerSpec& layer : model.layers) {
    if (layer.table.shards.empty() || layer.table.shards.front().data != nullptr) {
      return error(StatusCode::invalid_argument, "layer {}: its table lies in no file to verify",
                   layer.layer_index);
    }
    PLE_TRY_ASSIGN(const auto table, Table::open(layer.table, model.files, {}));
    report.sums_checked = table->checks_sums() && (done == 0 || report.sums_checked);
    LayerVerifier verifier(layer, *table, report);
    PLE_TRY(verifier.check_all(progress, done, total));
    PLE_TRY(verifier.check_sample());
    done += layer.table.row_count;
  }
  return report;
}

}  // namespace ple
