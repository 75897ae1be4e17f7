#include "bench/cold_chunk.hpp"

#include <algorithm>
#include <chrono>
#include <vector>

#include "command.hpp"

namespace pleiades::cli {
namespace {

constexpr std::size_t kChunkTokens = 8192;
constexpr std::size_t kChunksMax = 5;
constexpr std::size_t kCheckedRows = 4096;
// Room for the rows of a chunk. Memory is zeroed as it is first used: more of it would be measured.
constexpr std::uint64_t kCacheBytes = std::uint64_t{64} << 20;

// Compares rows of the staged chunk, spread over its tokens, with the file's own.
void check_rows(const Model& model, const ple_layer_info& layer, Engine& engine,
                std::span<const std::int32_t> tokens) {
  std::vector<std::uint32_t> ids(tokens.size() * static_cast<std::size_t>(layer.column_count));
  model.row_ids(layer.layer_index, tokens, ids.data());
  std::vector<std::uint32_t> rows;
  for (std::size_t i = 0; i < ids.size(); i += (ids.size() + kCheckedRows - 1) / kCheckedRows) {
    if (ids[i] != UINT32_MAX) rows.push_back(ids[i]);
  }
  const auto row_bytes = static_cast<std::size_t>(layer.row_bytes);
  std::vector<std::byte> staged(rows.size() * row_bytes);
  std::vector<std::byte> stored(staged.size());
  engine.read_rows(layer.layer_index, rows, false, staged.data());
  engine.read_rows(layer.layer_index, rows, true, stored.data());
  if (staged != stored) refuse("layer {}: a row in memory is not the file's", layer.layer_index);
}

ColdChunk measure(const Model& model, const ple_layer_info& layer, const EngineOptions& options,
                  std::span<const std::int32_t> tokens) {
  using Clock = std::chrono::steady_clock;
  Engine engine = Engine::open(model, options);
  const Sequence sequence(engine);
  Step step(engine, {.tokens_max = static_cast<std::int32_t>(tokens.size()), .sequences_max = 1});
  const Clock::time_point begin = Clock::now();
  step.stage(sequence, tokens);
  step.wait();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const ple_metrics metrics = engine.metrics();
  check_rows(model, layer, engine, tokens);
  return {metrics.rows_distinct, metrics.disk_reads, metrics.disk_bytes, seconds};
}

}  // namespace

ColdChunk measure_cold_chunk(const Model& model, const ple_layer_info& layer,
                             const EngineOptions& options, std::span<const std::int32_t> tokens) {
  EngineOptions cold = options;
  cold.layers = {layer.layer_index};
  cold.arena = PLE_ARENA_CACHED;
  cold.cache_bytes = kCacheBytes;
  const std::size_t chunk_tokens = std::min(kChunkTokens, tokens.size());
  const std::size_t chunk_count = std::min(kChunksMax, tokens.size() / chunk_tokens);
  std::vector<ColdChunk> chunks;
  for (std::size_t i = 0; i < chunk_count; ++i) {
    chunks.push_back(measure(model, layer, cold, tokens.subspan(i * chunk_tokens, chunk_tokens)));
  }
  const auto middle = chunks.begin() + static_cast<std::ptrdiff_t>(chunks.size() / 2);
  std::nth_element(chunks.begin(), middle, chunks.end(), [](const auto& a, const auto& b) {
    return a.per_second(a.reads) < b.per_second(b.reads);
  });
  return *middle;
}

}  // namespace pleiades::cli
