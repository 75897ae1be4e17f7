#include "capi/handles.hpp"
#include "checkpoint/checkpoint.hpp"
#include "engine/measure.hpp"
#include "engine/pack.hpp"
#include "engine/verify.hpp"
#include "table/block_sums.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;
using capi::guarded;

Progress to_progress(ple_progress_fn progress, void* user) {
  return [progress, user](std::uint64_t done, std::uint64_t total) {
    return progress == nullptr || progress(user, done, total) == 0;
  };
}

}  // namespace

ple_status ple_model_verify(const ple_model* model, ple_progress_fn progress, void* user,
                            ple_verify_report* report) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(report, "report"));
    PLE_TRY_ASSIGN(const VerifyReport found, verify(*model->spec, to_progress(progress, user)));
    *report = {.struct_bytes = sizeof(ple_verify_report),
               .reserved = 0,
               .rows_checked = found.rows_checked,
               .rows_not_finite = found.rows_not_finite,
               .first_bad_row = found.first_bad_row,
               .first_bad_layer = found.first_bad_layer,
               .sums_checked = found.sums_checked ? 1 : 0,
               .sample_rows = found.sample_rows,
               .sample_mismatches = found.sample_mismatches};
    return {};
  });
}

ple_status ple_model_write_sums(const ple_model* model, ple_progress_fn progress, void* user) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    return write_block_sums(*model->spec, to_progress(progress, user));
  });
}

ple_status ple_pack(const char* directory, const char* out, const ple_pack_options* options,
                    ple_progress_fn progress, ple_pack_head_fn head, void* user,
                    ple_pack_report* report) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(directory, "directory"));
    PLE_TRY(check_pointer(out, "out"));
    PLE_TRY(check_struct(options, "options"));
    PLE_TRY(check_struct(report, "report"));
    PLE_TRY(capi::check_enum(options->format, PLE_PACK_NVFP4, "format"));
    const PackRequest request{.directory = directory,
                              .out = out,
                              .format = static_cast<PackFormat>(options->format),
                              .interleave = options->interleave != 0,
                              .thread_count = options->thread_count};
    PLE_TRY_ASSIGN(const PackReport packed, pack(request, to_progress(progress, user)));
    for (const HeadError& error : packed.heads) {
      const ple_pack_head told{.layer_index = error.layer_index,
                               .column = error.column,
                               .row_begin = error.row_begin,
                               .row_count = error.row_count,
                               .relative_error = error.relative,
                               .worst_error = error.worst,
                               .worst_row = error.worst_row};
      if (head != nullptr) head(user, &told);
    }
    *report = {.struct_bytes = sizeof(ple_pack_report),
               .reserved = 0,
               .row_count = packed.row_count,
               .rows_resumed = packed.rows_resumed,
               .old_bytes = packed.old_bytes,
               .new_bytes = packed.new_bytes};
    return {};
  });
}

ple_status ple_measure_io(const ple_model* model, int32_t layer, const ple_engine_options* options,
                          double seconds, ple_io_measurement* measurement) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(model, "model"));
    PLE_TRY(check_struct(measurement, "measurement"));
    PLE_TRY_ASSIGN(const LayerSpec* spec, find_layer(*model->spec, layer));
    PLE_TRY_ASSIGN(const EngineOptions own_options, capi::engine_options(options));
    if (!(seconds > 0) || spec->table.shards.empty()) {
      return error(StatusCode::invalid_argument, "layer {}: {} seconds of reads from {} shards",
                   layer, seconds, spec->table.shards.size());
    }
    PLE_TRY_ASSIGN(const IoSpeed speed,
                   measure_io(*model->spec, *spec, own_options.reader, seconds));
    *measurement = {.struct_bytes = sizeof(ple_io_measurement),
                    .io = static_cast<ple_io>(speed.reader.features.backend),
                    .block_bytes = static_cast<std::int32_t>(speed.reader.block_bytes),
                    .depth = static_cast<std::int32_t>(speed.reader.depth),
                    .reads_per_s = speed.reads_per_s,
                    .bytes_per_s = speed.bytes_per_s,
                    .read = capi::to_c(speed.read)};
    return {};
  });
}

ple_status ple_measure_cache(uint64_t arena_bytes, ple_cache_measurement* measurement) {
  return guarded([&]() -> Status {
    PLE_TRY(check_struct(measurement, "measurement"));
    PLE_TRY_ASSIGN(const HitSpeed speed, measure_cache(arena_bytes));
    *measurement = {.struct_bytes = sizeof(ple_cache_measurement),
                    .reserved = 0,
                    .arena_bytes = speed.arena_bytes,
                    .hit_ids_per_s = speed.hit_ids_per_s,
                    .stage_16_us = speed.stage_16_us,
                    .stage_1024_us = speed.stage_1024_us,
                    .stage_131072_us = speed.stage_131072_us,
                    .two_thread_scale = speed.two_thread_scale,
                    .bytes_per_slot = speed.bytes_per_slot};
    return {};
  });
}
