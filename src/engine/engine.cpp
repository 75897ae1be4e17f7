#include "engine/engine.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "cache/row_requests.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/warm_start.hpp"
#include "kernels/gather_rows.hpp"
#include "table/memory_table.hpp"

namespace ple {

namespace {

std::uint64_t table_bytes(const LayerSpec& layer) {
  return layer.table.row_count * static_cast<std::uint64_t>(layer.table.encoding.row_bytes);
}

bool is_in_memory(const TableSpec& table) {
  return std::any_of(table.shards.begin(), table.shards.end(),
                     [](const ShardExtent& shard) { return shard.data != nullptr; });
}

}  // namespace

Result<std::shared_ptr<Engine>> Engine::open(std::shared_ptr<const ModelSpec> model,
                                             const EngineOptions& options) {
  std::shared_ptr<Engine> engine(new Engine(std::move(model), options));
  PLE_TRY(engine->choose_layers());
  PLE_TRY(engine->choose_backend());
  PLE_TRY(engine->open_tables());
  PLE_TRY(engine->load_weights());  // refuses what the backend does not run before rows are read
  PLE_TRY(engine->open_caches());
  engine->read_warm_start();
  const EngineInfo& info = engine->info_;
  options.log.log(LogLevel::info, "{} of {} layers on {}: {} slots in {} MB, {} MB dense weights",
                  engine->layers_.size(), engine->model_->layers.size(), info.device_name,
                  info.slot_count, info.arena_bytes >> 20, info.dense_bytes >> 20);
  return engine;
}

Engine::~Engine() {
  if (options_.warm_start.empty()) return;
  warm_start_.reset();
  const Status saved =
      or_out_of_memory([this] { return save_warm_start(options_.warm_start, *model_, layers_); });
  if (!saved.is_ok()) log().log(LogLevel::warning, "{}", saved.message());
}

Status Engine::choose_layers() {
  if (options_.draft_max < 0 || options_.draft_max > 4096) {
    return error(StatusCode::invalid_argument, "draft_max {} outside 0 .. 4096",
                 options_.draft_max);
  }
  if (options_.projection == Projection::fp8 && model_->family != Family::engram_v41) {
    return error(StatusCode::unsupported,
                 "projection fp8: only DeepSeek V4.1's Engram has weights in FP8");
  }
  for (const std::int32_t asked : options_.layers) {
    PLE_TRY(ple::find_layer(*model_, asked).status());
  }
  for (const LayerSpec& spec : model_->layers) {
    const auto& asked = options_.layers;
    if (!asked.empty() && std::find(asked.begin(), asked.end(), spec.layer_index) == asked.end()) {
      continue;
    }
    if (spec.table.shards.empty()) {
      return error(StatusCode::invalid_argument,
                   "the model was opened from a config alone: it has no tensors to run with");
    }
    layers_.push_back({.spec = &spec, .source = {}, .table = nullptr, .cache = {}, .layer = {}});
  }
  return {};
}

Result<std::size_t> Engine::find_layer(std::int32_t layer_index) const {
  std::string known;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    if (layers_[i].spec->layer_index == layer_index) return i;
    known += (known.empty() ? "" : ", ") + std::to_string(layers_[i].spec->layer_index);
  }
  return error(StatusCode::invalid_argument,
               "layer {} has no n-gram memory here; layers with one: {}", layer_index, known);
}

Status Engine::choose_backend() {
  PLE_TRY_ASSIGN(backend_, make_backend(options_));
  info_.arithmetic =
      options_.default_arithmetic ? backend_->default_arithmetic() : options_.arithmetic;
  info_.device_name = backend_->device_name();
  info_.thread_count = backend_->thread_count();
  info_.slot_place = backend_->slot_place();
  info_.graph_wait = backend_->async() != nullptr && backend_->async()->has_graph_wait();
  return {};
}

Status Engine::open_tables() {
  std::vector<EngineLayer*> on_disk;
  std::vector<const TableSpec*> specs;
  for (EngineLayer& layer : layers_) {
    if (is_in_memory(layer.spec->table)) {
      PLE_TRY_ASSIGN(layer.source, MemoryTable::open(layer.spec->table));
      continue;
    }
    on_disk.push_back(&layer);
    specs.push_back(&layer.spec->table);
  }
  PLE_TRY_ASSIGN(auto tables, Table::open_all(specs, model_->files, {.reader = options_.reader}));
  for (std::size_t i = 0; i < tables.size(); ++i) {
    info_.reader = tables[i]->reader_info();
    on_disk[i]->table = tables[i].get();
    on_disk[i]->source = std::move(tables[i]);
  }
  return {};
}

Status Engine::open_caches() {
  std::uint64_t all_bytes = 0;
  for (const EngineLayer& layer : layers_) all_bytes += table_bytes(*layer.spec);
  const bool resident = options_.arena == Arena::resident ||
                        (options_.arena == Arena::automatic && all_bytes <= options_.cache_bytes);
  info_.arena = resident ? Arena::resident : Arena::cached;
  for (EngineLayer& layer : layers_) {
    RowCacheOptions cache;
    // Every layer gets its tables' share of the bytes.
    const auto weighted_bytes =
        static_cast<unsigned __int128>(options_.cache_bytes) * table_bytes(*layer.spec);
    cache.cache_bytes = static_cast<std::uint64_t>(weighted_bytes / all_bytes);
    cache.resident = resident;
    cache.read_deadline = std::chrono::milliseconds(options_.read_deadline_ms);
    cache.slot_memory = backend_->slot_memory();
    cache.landing_memory = backend_->landing_memory();
    PLE_TRY_ASSIGN(layer.cache, RowCache::open(*layer.source, cache));
    info_.slot_count += layer.cache->slot_count();
    info_.arena_bytes +=
        std::uint64_t{layer.cache->slot_count()} * slot_bytes_of(layer.source->encoding());
  }
  return {};
}

Status Engine::load_weights() {
  for (const EngineLayer& layer : layers_) {
    past_.lookback = std::max(past_.lookback, layer.spec->hash->lookback());
    past_.window = std::max(past_.window, carried_window(*layer.spec));
  }
  past_.draft_max = options_.draft_max;
  const LayerOptions options{.arithmetic = info_.arithmetic,
                             .projection = options_.projection,
                             .ring_length = Timeline(past_).ring_length()};
  for (EngineLayer& layer : layers_) {
    PLE_TRY_ASSIGN(layer.layer, backend_->load_layer(*model_, *layer.spec, options));
    const LayerTraits& traits = layer.layer->traits();
    info_.dense_bytes += traits.dense_bytes;
    info_.sequence_bytes += static_cast<std::uint64_t>(traits.state_bytes);
  }
  return {};
}

void Engine::read_warm_start() {
  if (options_.warm_start.empty()) return;
  auto started = WarmStart::start(options_.warm_start, *model_, layers_);
  if (started.is_ok()) {
    warm_start_ = std::move(started).value();
    return;
  }
  // A cold start is only slower.
  const bool is_first = started.status().code() == StatusCode::not_found;
  log().log(is_first ? LogLevel::info : LogLevel::warning, "{}", started.status().message());
}

Status Engine::read_rows(std::size_t layer, std::span<const RowId> rows, bool direct,
                         std::byte* out) {
  EngineLayer& engine_layer = layers_[layer];
  const auto row_bytes = static_cast<std::size_t>(engine_layer.source->encoding().row_bytes);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= engine_layer.source->row_count()) {
      return error(StatusCode::invalid_argument, "layer {}: row {} beyond the table's {}",
                   engine_layer.spec->layer_index, rows[i], engine_layer.source->row_count());
    }
  }
  if (direct) return read_direct(*engine_layer.source, rows, out);
  PLE_TRY_ASSIGN(const auto staged, engine_layer.cache->make_staged(rows.size()));
  PLE_TRY(engine_layer.cache->stage(rows, *staged));
  Status status = staged->wait();
  if (status.is_ok() && backend_->async() != nullptr) {
    status = staged->place(backend_->async()->placements());
    if (status.is_ok()) {
      status = backend_->async()->read_slots(staged->view(), staged->slots(), out);
    }
  } else {
    for (std::size_t i = 0; status.is_ok() && i < rows.size(); ++i) {
      std::memcpy(out + i * row_bytes, kernels::row_bytes_of(staged->view(), staged->slots()[i]),
                  row_bytes);
    }
  }
  staged->release();
  return status;
}

Status Engine::read_direct(RowSource& source, std::span<const RowId> rows, std::byte* out) const {
  const auto row_bytes = static_cast<std::size_t>(source.encoding().row_bytes);
  std::vector<RowRead> reads;
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return rows[a] < rows[b]; });
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && rows[order[i]] == rows[order[i - 1]]) continue;
    reads.push_back({rows[order[i]], out + order[i] * row_bytes});
  }
  const std::shared_ptr<RowReadBatch> batch = source.make_batch();
  PLE_TRY(source.submit(reads, batch));
  PLE_TRY(batch->wait(std::chrono::milliseconds(options_.read_deadline_ms)));
  for (std::size_t i = 1; i < order.size(); ++i) {
    if (rows[order[i]] != rows[order[i - 1]]) continue;
    std::memcpy(out + order[i] * row_bytes, out + order[i - 1] * row_bytes, row_bytes);
  }
  return {};
}

// One reader serves every table.
const BlockReaderMetrics* Engine::reader_metrics() const {
  for (const EngineLayer& layer : layers_) {
    if (layer.table != nullptr) return &layer.table->reader_metrics();
  }
  return nullptr;
}

const LatencyHistogram* Engine::read_times() const {
  const BlockReaderMetrics* const reader = reader_metrics();
  return reader == nullptr ? nullptr : &reader->read_ns;
}

EngineMetrics Engine::metrics() const {
  EngineMetrics metrics;
  metrics.tokens = counters_.tokens.load(std::memory_order_relaxed);
  metrics.steps = counters_.steps.load(std::memory_order_relaxed);
  for (const EngineLayer& layer : layers_) add(metrics.rows, layer.cache->metrics());
  if (const BlockReaderMetrics* const reader = reader_metrics()) {
    metrics.disk_reads = reader->read_count.load(std::memory_order_relaxed);
    metrics.disk_bytes = reader->read_bytes.load(std::memory_order_relaxed);
    metrics.read = quantiles_of(reader->read_ns);
  }
  metrics.stage = quantiles_of(counters_.stage);
  metrics.wait = quantiles_of(counters_.wait);
  metrics.run = quantiles_of(counters_.run);
  return metrics;
}

}  // namespace ple
