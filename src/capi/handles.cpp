#include "capi/handles.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace ple::capi {

namespace {

// A fixed buffer: keeping a sentence must not itself run out of memory.
constexpr std::size_t kErrorBytes = 2048;
thread_local char last_error[kErrorBytes] = "";

}  // namespace

void remember_error(const Status& status) noexcept {
  const char* sentence = status.message().c_str();
  if (status.message().empty()) {
    sentence = status.code() == StatusCode::internal ? "internal error" : "out of memory";
  }
  if (std::snprintf(last_error, kErrorBytes, "%s", sentence) < static_cast<int>(kErrorBytes))
    return;
  // Cut, perhaps within a character of UTF-8: without its bytes, the first of which has bit 6 set.
  char* end = last_error + kErrorBytes - 1;
  while ((end[-1] & 0xC0) == 0x80) --end;
  if ((end[-1] & 0x80) != 0) --end;
  *end = '\0';
}

Status copy_out(const void* data, std::size_t data_bytes, void* buffer, std::size_t capacity,
                std::size_t* bytes) {
  if (buffer != nullptr && capacity < data_bytes) {
    return error(StatusCode::invalid_argument, "a buffer of {} bytes for {}", capacity, data_bytes);
  }
  if (buffer != nullptr) std::memcpy(buffer, data, data_bytes);
  *bytes = data_bytes;
  return {};
}

Result<EngineOptions> engine_options(const ple_engine_options* given) {
  const ple_engine_options defaults = PLE_ENGINE_OPTIONS_INIT;
  const ple_engine_options& from = given == nullptr ? defaults : *given;
  PLE_TRY(check_struct(&from, "options"));
  PLE_TRY(check_enum(from.arithmetic, PLE_ARITHMETIC_REFERENCE, "arithmetic"));
  PLE_TRY(check_enum(from.arena, PLE_ARENA_RESIDENT, "arena"));
  PLE_TRY(check_enum(from.slot_memory, PLE_SLOTS_PINNED, "slot_memory"));
  PLE_TRY(check_enum(from.projection, PLE_PROJECTION_DEQUANTIZED, "projection"));
  PLE_TRY(check_enum(from.io, PLE_IO_PREAD, "io"));
  if (from.thread_count < 0 || from.io_depth < 0 || from.io_thread_count < 0 ||
      from.read_deadline_ms < 0 || from.layer_count < 0) {
    return error(
        StatusCode::invalid_argument,
        "options: a negative count: threads {}, io depth {}, io threads {}, deadline {} ms, "
        "layers {}",
        from.thread_count, from.io_depth, from.io_thread_count, from.read_deadline_ms,
        from.layer_count);
  }
  if ((from.layers == nullptr) != (from.layer_count == 0)) {
    return error(StatusCode::invalid_argument, "options: layers is {} with {} layers",
                 from.layers == nullptr ? "NULL" : "not NULL", from.layer_count);
  }
  EngineOptions options;
  if (from.device != nullptr) options.device = from.device;
  options.default_arithmetic = from.arithmetic == PLE_ARITHMETIC_AUTO;
  if (!options.default_arithmetic) {
    options.arithmetic = static_cast<kernels::Arithmetic>(from.arithmetic - PLE_ARITHMETIC_FLOAT32);
  }
  options.arena = static_cast<Arena>(from.arena);
  options.slot_place = static_cast<SlotPlace>(from.slot_memory);
  options.projection = static_cast<Projection>(from.projection);
  options.cache_bytes = from.cache_bytes;
  options.thread_count = from.thread_count;
  options.draft_max = from.draft_max;
  if (from.layers != nullptr) options.layers.assign(from.layers, from.layers + from.layer_count);
  options.reader.backend = static_cast<IoBackend>(from.io);
  options.reader.depth = static_cast<std::uint32_t>(from.io_depth);
  options.reader.thread_count = static_cast<std::uint32_t>(from.io_thread_count);
  if (from.read_deadline_ms > 0) options.read_deadline_ms = from.read_deadline_ms;
  if (from.warm_start != nullptr) options.warm_start = from.warm_start;
  if (from.log != nullptr) {
    // LogLevel has ple_log_level's values and an enum's size in C.
    options.log = LogSink(reinterpret_cast<LogSink::Write>(from.log), from.log_user);
  }
  return options;
}

ple_quantiles to_c(const Quantiles& quantiles) {
  return {quantiles.p50_us, quantiles.p99_us, quantiles.max_us, quantiles.count};
}

}  // namespace ple::capi

const char* ple_last_error(void) { return ple::capi::last_error; }

#define PLE_STRING_(x) #x
#define PLE_STRING(x) PLE_STRING_(x)

const char* ple_version(void) {
  return PLE_STRING(PLE_VERSION_MAJOR) "." PLE_STRING(PLE_VERSION_MINOR) "." PLE_STRING(
      PLE_VERSION_PATCH);
}
