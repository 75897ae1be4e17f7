#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/backend.hpp"
#include "engine/in_flight.hpp"
#include "engine/layer.hpp"
#include "engine/metrics.hpp"
#include "engine/options.hpp"
#include "engine/warm_start.hpp"
#include "sequence/timeline.hpp"
#include "table/table.hpp"

namespace ple {

// One memory layer of an opened engine: where its rows come from, where they are kept, and what is
// done with them.
struct EngineLayer {
  const LayerSpec* spec = nullptr;
  std::unique_ptr<RowSource> source;
  const Table* table = nullptr;     // the source where its rows lie in files
  std::unique_ptr<RowCache> cache;  // behind source: it ends first
  std::unique_ptr<Layer> layer;
};

// What an engine decided at open.
struct EngineInfo {
  kernels::Arithmetic arithmetic = kernels::Arithmetic::float32;
  Arena arena = Arena::cached;
  SlotPlace slot_place = SlotPlace::pinned;
  BlockReaderInfo reader;
  std::int32_t thread_count = 0;
  bool graph_wait = false;
  std::uint64_t arena_bytes = 0;
  std::uint64_t slot_count = 0;
  std::uint64_t dense_bytes = 0;
  std::uint64_t sequence_bytes = 0;
  std::string device_name;
};

// A model made ready to run on one device. Thread-safe; sequences and steps hold it alive.
class Engine {
 public:
  static Result<std::shared_ptr<Engine>> open(std::shared_ptr<const ModelSpec> model,
                                              const EngineOptions& options);
  // Saves the hot rows' ids where a warm start was asked for.
  ~Engine();

  const ModelSpec& model() const { return *model_; }
  const EngineInfo& info() const { return info_; }
  Backend& backend() { return *backend_; }
  InFlight& in_flight() { return in_flight_; }
  std::span<const EngineLayer> layers() const { return layers_; }
  const LogSink& log() const { return options_.log; }

  // The position in layers() of a decoder layer, or a sentence that lists those there are.
  Result<std::size_t> find_layer(std::int32_t layer_index) const;

  // What a sequence of this engine needs of its past, over all layers.
  const TimelineOptions& past() const { return past_; }

  // Encoded rows, through the cache or straight from the source.
  Status read_rows(std::size_t layer, std::span<const RowId> rows, bool direct, std::byte* out);

  // A number that no other batch of this engine has.
  std::uint64_t next_batch() { return batch_count_.fetch_add(1, std::memory_order_relaxed) + 1; }

  StepCounters& counters() { return counters_; }
  EngineMetrics metrics() const;
  // How long disk reads took; null where nothing is read.
  const LatencyHistogram* read_times() const;

 private:
  Engine(std::shared_ptr<const ModelSpec> model, const EngineOptions& options)
      : model_(std::move(model)), options_(options) {}

  Status choose_layers();
  Status choose_backend();
  Status open_tables();
  Status open_caches();
  Status load_weights();
  void read_warm_start();
  const BlockReaderMetrics* reader_metrics() const;
  Status read_direct(RowSource& source, std::span<const RowId> rows, std::byte* out) const;

  std::shared_ptr<const ModelSpec> model_;
  EngineOptions options_;
  EngineInfo info_;
  TimelineOptions past_;
  StepCounters counters_;
  std::atomic<std::uint64_t> batch_count_ = 0;

  std::unique_ptr<Backend> backend_;
  std::vector<EngineLayer> layers_;
  InFlight in_flight_;
  std::unique_ptr<WarmStart> warm_start_;  // last: it fills the layers' caches
};

}  // namespace ple
