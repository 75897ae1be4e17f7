#include "engine/warm_start.hpp"

#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/start_thread.hpp"
#include "checkpoint/input_file.hpp"
#include "engine/engine.hpp"
#include "io/replace_file.hpp"

namespace ple {

namespace {

constexpr char kMagic[8] = {'P', 'L', 'E', 'W', 'A', 'R', 'M', '\0'};
constexpr std::uint32_t kVersion = 1;
// Half of what a cache holds is hot enough to be worth reading back.
constexpr std::size_t kHotShare = 2;
// Loads under way: steps take turns with them on the disk.
constexpr std::size_t kLoadsMax = 2;
constexpr std::chrono::milliseconds kPause(2);

// More than the ids of all the rows that there can be.
constexpr std::uint64_t kBytesMax = std::uint64_t{1} << 40;

struct Header {
  char magic[8];
  std::uint32_t version;
  std::uint32_t layer_count;
  std::uint64_t geometry_identity;
  std::uint64_t weights_identity;
};
static_assert(sizeof(Header) == 32);

struct LayerHeader {
  std::int32_t layer_index;
  std::uint32_t row_count;
};

void append(std::string& bytes, const void* data, std::size_t count) {
  bytes.append(static_cast<const char*>(data), count);
}

Status damaged(const std::string& path) {
  return error(StatusCode::corrupt, "warm start file '{}': damaged", path);
}

// Whether there is a file at path that no engine has written, or not for this.
bool is_foreign(const std::string& path) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file.is_ok() || file.value().bytes() == 0) return false;
  char magic[sizeof(kMagic)] = {};
  const std::size_t bytes = std::min<std::size_t>(file.value().bytes(), sizeof(magic));
  const Status status = file.value().read(0, std::as_writable_bytes(std::span(magic, bytes)));
  return status.is_ok() && std::memcmp(magic, kMagic, sizeof(kMagic)) != 0;
}

}  // namespace

Status save_warm_start(const std::string& path, const ModelSpec& model,
                       std::span<const EngineLayer> layers) {
  if (layers.empty()) return {};  // the engine did not open
  if (is_foreign(path)) {
    return error(StatusCode::unsupported, "'{}' is no warm start file, and is not replaced by one",
                 path);
  }
  std::string bytes;
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.layer_count = static_cast<std::uint32_t>(layers.size());
  header.geometry_identity = model.geometry_identity;
  header.weights_identity = model.weights_identity;
  append(bytes, &header, sizeof(header));
  for (const EngineLayer& layer : layers) {
    if (layer.cache == nullptr) return {};
    const std::vector<RowId> rows = layer.cache->hot_rows(layer.cache->slot_count() / kHotShare);
    const LayerHeader layer_header{layer.spec->layer_index,
                                   static_cast<std::uint32_t>(rows.size())};
    append(bytes, &layer_header, sizeof(layer_header));
    append(bytes, rows.data(), rows.size() * sizeof(RowId));
  }
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), bytes.size());
  append(bytes, &checksum, sizeof(checksum));
  return replace_file(path, std::as_bytes(std::span(bytes)));
}

Result<std::unique_ptr<WarmStart>> WarmStart::start(const std::string& path, const ModelSpec& model,
                                                    std::span<const EngineLayer> layers) {
  PLE_TRY_ASSIGN(const InputFile file, InputFile::open(path));
  PLE_TRY_ASSIGN(const std::string bytes, file.read_all(kBytesMax));
  Header header{};
  std::uint64_t checksum = 0;
  if (bytes.size() < sizeof(header) + sizeof(checksum)) return damaged(path);
  const std::size_t body = bytes.size() - sizeof(checksum);
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::memcpy(&checksum, bytes.data() + body, sizeof(checksum));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      XXH3_64bits(bytes.data(), body) != checksum) {
    return damaged(path);
  }
  if (header.version != kVersion || header.geometry_identity != model.geometry_identity ||
      header.weights_identity != model.weights_identity) {
    return error(StatusCode::invalid_argument, "warm start file '{}': of another model or version",
                 path);
  }
  std::vector<LayerRows> hot;
  std::size_t at = sizeof(header);
  for (std::uint32_t i = 0; i < header.layer_count; ++i) {
    LayerHeader layer_header{};
    if (body - at < sizeof(layer_header)) return damaged(path);
    std::memcpy(&layer_header, bytes.data() + at, sizeof(layer_header));
    at += sizeof(layer_header);
    if ((body - at) / sizeof(RowId) < layer_header.row_count) return damaged(path);
    std::vector<RowId> rows(layer_header.row_count);
    std::copy_n(bytes.data() + at, rows.size() * sizeof(RowId),
                reinterpret_cast<char*>(rows.data()));
    at += rows.size() * sizeof(RowId);
    for (const EngineLayer& layer : layers) {
      if (layer.spec->layer_index != layer_header.layer_index) continue;
      for (const RowId row : rows) {
        if (row >= layer.source->row_count()) return damaged(path);
      }
      hot.push_back({layer.cache.get(), std::move(rows)});
      break;
    }
  }
  std::unique_ptr<WarmStart> warm_start(new WarmStart(std::move(hot)));
  if (warm_start->go_on()) {
    PLE_TRY_ASSIGN(warm_start->thread_, start_thread([own = warm_start.get()] { own->run(); }));
  }
  return warm_start;
}

WarmStart::~WarmStart() {
  {
    const MutexLock lock(mutex_);
    is_stopping_ = true;
    stopping_changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

bool WarmStart::go_on() {
  bool has_more = false;
  for (LayerRows& layer : layers_) {
    const Result<std::size_t> seen =
        layer.cache->prefetch(std::span(layer.rows).subspan(layer.done), kLoadsMax);
    // What cannot be read now is read when a step asks for it.
    layer.done = seen.is_ok() ? layer.done + seen.value() : layer.rows.size();
    has_more |= layer.done < layer.rows.size();
  }
  return has_more;
}

void WarmStart::run() {
  bool has_more = true;
  while (has_more) {
    {
      const MutexLock lock(mutex_);
      const auto time = std::chrono::steady_clock::now() + kPause;
      while (!is_stopping_ && stopping_changed_.wait_until(mutex_, time)) {
      }
      if (is_stopping_) return;
    }
    const Status status = or_out_of_memory([&]() -> Status {
      has_more = go_on();
      return {};
    });
    if (!status.is_ok()) return;  // steps read what they need
  }
}

}  // namespace ple
