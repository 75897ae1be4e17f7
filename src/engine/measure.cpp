#include "engine/measure.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <random>
#include <vector>

#include "base/error.hpp"
#include "checkpoint/qwen4_exp.hpp"
#include "table/table.hpp"

namespace ple {

namespace {

constexpr std::chrono::seconds kDeadline(30);
constexpr std::size_t kBatchRows = 8192;

// One of the batches that keep the reader busy.
struct Lane {
  std::shared_ptr<RowReadBatch> batch;
  std::vector<std::byte> bytes;
  std::vector<RowRead> reads;
};

// Distinct rows, so far apart that hardly any two share a block.
void draw_rows(Lane& lane, std::uint64_t row_count, std::size_t row_bytes,
               std::mt19937_64& random) {
  const std::size_t count = std::min<std::uint64_t>(kBatchRows, row_count);
  const std::uint64_t stride = row_count / count;
  lane.bytes.resize(count * row_bytes);
  lane.reads.clear();
  for (std::size_t i = 0; i < count; ++i) {
    const auto row = static_cast<RowId>(i * stride + random() % stride);
    lane.reads.push_back({row, lane.bytes.data() + i * row_bytes});
  }
  std::shuffle(lane.reads.begin(), lane.reads.end(), random);
}

}  // namespace

Result<IoSpeed> measure_io(const ModelSpec& model, const LayerSpec& layer,
                           const BlockReaderOptions& options, double seconds) {
  using Clock = std::chrono::steady_clock;
  PLE_TRY_ASSIGN(const auto table, Table::open(layer.table, model.files, {.reader = options}));
  const auto row_bytes = static_cast<std::size_t>(layer.table.encoding.row_bytes);
  std::mt19937_64 random(1);
  std::array<Lane, 3> lanes;
  for (Lane& lane : lanes) {
    lane.batch = table->make_batch();
    draw_rows(lane, table->row_count(), row_bytes, random);
    PLE_TRY(table->submit(lane.reads, lane.batch));
  }
  const BlockReaderMetrics& metrics = table->reader_metrics();
  const Clock::time_point begin = Clock::now();
  const std::uint64_t reads_before = metrics.read_count.load();
  const std::uint64_t bytes_before = metrics.read_bytes.load();
  double elapsed = 0;
  for (std::size_t turn = 0; elapsed < seconds; ++turn) {
    Lane& lane = lanes[turn % lanes.size()];
    PLE_TRY(lane.batch->wait(kDeadline));
    draw_rows(lane, table->row_count(), row_bytes, random);
    PLE_TRY(table->submit(lane.reads, lane.batch));
    elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  const auto per_second = [&](std::uint64_t after, std::uint64_t before) {
    return static_cast<double>(after - before) / elapsed;
  };
  const IoSpeed speed{.reader = table->reader_info(),
                      .reads_per_s = per_second(metrics.read_count.load(), reads_before),
                      .bytes_per_s = per_second(metrics.read_bytes.load(), bytes_before),
                      .read = quantiles_of(metrics.read_ns)};
  for (Lane& lane : lanes) PLE_TRY(lane.batch->wait(kDeadline));
  return speed;
}

Result<HitSpeed> measure_cache(std::uint64_t arena_bytes) {
  constexpr std::int32_t kRowBytes = 320;
  const std::uint64_t slot_count = arena_bytes / kRowBytes;
  if (slot_count >= kNoRow) {
    return error(StatusCode::invalid_argument, "an arena of {} bytes is too large to measure",
                 arena_bytes);
  }
  Qwen4ExpConfig config;
  config.hidden = 2560;
  config.embed_dim = 2560;
  config.eos_token = 248044;
  // Sixteen primes from here on, and the padding, stay below the slots.
  config.ngram_vocab_size_base = static_cast<std::int64_t>(slot_count / 16 - slot_count / 1000);
  config.layers = {1};
  PLE_TRY_ASSIGN(const ModelSpec model, qwen4_exp_model(config, "cache measurement"));
  const RowHash& hash = *model.layers.front().hash;
  const auto columns = static_cast<std::size_t>(hash.column_count());
  HitSpeedOptions options;
  options.arena_bytes = arena_bytes;
  options.row_bytes = kRowBytes;
  options.row_count = hash.row_count();
  if (options.row_count > slot_count) {
    return error(StatusCode::invalid_argument, "an arena of {} bytes is too small to measure",
                 arena_bytes);
  }
  // Tokens made beforehand: only their hashing is part of a step.
  constexpr std::size_t kTokens = std::size_t{1} << 20;
  std::vector<TokenId> tokens(kTokens);
  std::mt19937_64 random(2);
  for (TokenId& token : tokens) token = static_cast<TokenId>(random() % 248320);
  options.make_ids = [&](std::uint64_t step_index, std::span<RowId> ids) {
    const std::size_t count = ids.size() / columns;
    const std::size_t begin = 2 + step_index * count % (kTokens - count - 2);
    const std::span<const TokenId> all(tokens);
    hash.row_ids(all.subspan(begin - 2, 2), all.subspan(begin, count), ids.data());
  };
  return measure_hit_speed(options);
}

}  // namespace ple
