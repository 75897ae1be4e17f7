#include <string>
#include <utility>

#include "capi/handles.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;
using capi::guarded;
using capi::to_c;

}  // namespace

ple_status ple_engine_open(const ple_model* model, const ple_engine_options* options,
                           ple_engine** engine) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY_ASSIGN(const EngineOptions own_options, capi::engine_options(options));
    PLE_TRY_ASSIGN(std::shared_ptr<Engine> opened, Engine::open(model->spec, own_options));
    *engine = new ple_engine{std::move(opened)};
    return {};
  });
}

void ple_engine_release(ple_engine** engine) {
  if (engine == nullptr) return;
  delete *engine;
  *engine = nullptr;
}

ple_status ple_engine_get_info(const ple_engine* engine, ple_engine_info* info) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_struct(info, "info"));
    const EngineInfo& from = engine->engine->info();
    *info = {.struct_bytes = sizeof(ple_engine_info),
             .arithmetic = static_cast<ple_arithmetic>(static_cast<int>(from.arithmetic) +
                                                       PLE_ARITHMETIC_FLOAT32),
             .arena = static_cast<ple_arena>(from.arena),
             .slot_memory = static_cast<ple_slot_memory>(from.slot_place),
             .io = static_cast<ple_io>(from.reader.features.backend),
             .direct_io = from.reader.is_direct ? 1 : 0,
             .block_bytes = static_cast<std::int32_t>(from.reader.block_bytes),
             .io_depth = static_cast<std::int32_t>(from.reader.depth),
             .thread_count = from.thread_count,
             .graph_wait = from.graph_wait ? 1 : 0,
             .arena_bytes = from.arena_bytes,
             .slot_count = from.slot_count,
             .dense_bytes = from.dense_bytes,
             .sequence_bytes = from.sequence_bytes,
             .device_name = from.device_name.c_str()};
    return {};
  });
}

ple_status ple_engine_read_rows(ple_engine* engine, int32_t layer, const uint32_t* rows,
                                int64_t count, int32_t direct, void* bytes) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    if (count < 0) return error(StatusCode::invalid_argument, "{} rows", count);
    PLE_TRY_ASSIGN(const std::size_t index, engine->engine->find_layer(layer));
    if (count == 0) return {};
    PLE_TRY(check_pointer(rows, "rows"));
    PLE_TRY(check_pointer(bytes, "bytes"));
    return engine->engine->read_rows(index, {rows, static_cast<std::size_t>(count)}, direct != 0,
                                     static_cast<std::byte*>(bytes));
  });
}

ple_status ple_engine_get_metrics(const ple_engine* engine, ple_metrics* metrics) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_struct(metrics, "metrics"));
    const EngineMetrics from = engine->engine->metrics();
    *metrics = {.struct_bytes = sizeof(ple_metrics),
                .reserved = 0,
                .tokens = from.tokens,
                .steps = from.steps,
                .rows_asked = from.rows.rows_asked,
                .rows_distinct = from.rows.rows_distinct,
                .rows_hit = from.rows.rows_hit,
                .rows_missed = from.rows.rows_missed,
                .rows_prefetched = from.rows.rows_prefetched,
                .disk_reads = from.disk_reads,
                .disk_bytes = from.disk_bytes,
                .read = to_c(from.read),
                .stage = to_c(from.stage),
                .wait = to_c(from.wait),
                .run = to_c(from.run)};
    return {};
  });
}

static_assert(PLE_TIME_BUCKETS_MAX == LatencyHistogram::kBucketCount);

ple_status ple_engine_get_read_times(const ple_engine* engine, ple_time_bucket* buckets,
                                     int32_t* count) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_pointer(buckets, "buckets"));
    PLE_TRY(check_pointer(count, "count"));
    *count = 0;
    if (const LatencyHistogram* const times = engine->engine->read_times()) {
      times->for_each_bucket([&](std::uint64_t ns_max, std::uint64_t read_count) {
        buckets[(*count)++] = {.us_max = static_cast<double>(ns_max) * 1e-3, .count = read_count};
      });
    }
    return {};
  });
}

ple_status ple_engine_metrics_text(const ple_engine* engine, char* buffer, size_t capacity,
                                   size_t* bytes) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_pointer(bytes, "bytes"));
    const std::string page = prometheus_text(engine->engine->metrics());
    if (buffer != nullptr && capacity <= page.size()) {
      return error(StatusCode::invalid_argument, "a buffer of {} bytes for {} and a NUL", capacity,
                   page.size());
    }
    if (buffer != nullptr) page.copy(buffer, page.size());
    if (buffer != nullptr) buffer[page.size()] = '\0';
    *bytes = page.size();
    return {};
  });
}
