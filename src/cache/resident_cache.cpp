#include "cache/resident_cache.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "cache/row_requests.hpp"

namespace ple {

namespace {

// Rows of one batch while the table is read.
constexpr std::uint64_t kChunkRows = 16384;

// A piece of the table on its way into the arena. Takes its reads back when opening fails.
struct Chunk {
  ~Chunk() {
    if (!reads.empty()) static_cast<void>(batch->wait(std::chrono::nanoseconds(0)));
  }

  std::uint64_t first_row = 0;
  std::vector<RowRead> reads;  // in flight; empty: none
  std::shared_ptr<RowReadBatch> batch;
  std::unique_ptr<SlotMemory> landing;  // only for device memory
};

}  // namespace

class ResidentCache::Rows final : public StagedRows {
 public:
  Rows(ResidentCache& cache, std::size_t ids_max) : cache_(cache), slots_(ids_max) {}
  ~Rows() override { release(); }

  Status stage(std::span<const RowId> ids) {
    if (is_staged_) {
      return error(StatusCode::wrong_state, "the {} rows staged before are not released",
                   id_count_);
    }
    PLE_TRY(check_step(ids.size(), slots_.size(), sizeof(SlotId)));
    static_assert(kZeroSlot == kNoRow);
    std::copy(ids.begin(), ids.end(), slots_.begin());
    id_count_ = ids.size();
    is_staged_ = true;
    ++cache_.lease_count_;
    cache_.count_rows(slots());
    return {};
  }
  bool belongs_to(const ResidentCache& cache) const { return &cache == &cache_; }

  std::span<const SlotId> slots() const override { return {slots_.data(), id_count_}; }
  RowView view() const override {
    return {.arena = cache_.arena_->kernel_address(),
            .staging = nullptr,
            .arena_slot_count = cache_.slot_count(),
            .slot_bytes = cache_.slot_bytes_,
            .encoding = cache_.source_.encoding()};
  }
  bool ready() override { return true; }
  Status wait() override { return {}; }
  Status place(PlacementSink&) override { return {}; }
  void release() override {
    if (!is_staged_) return;
    --cache_.lease_count_;
    is_staged_ = false;
    id_count_ = 0;
  }

 private:
  ResidentCache& cache_;
  std::vector<SlotId> slots_;  // [ids_max]
  std::size_t id_count_ = 0;
  bool is_staged_ = false;
};

Result<std::unique_ptr<RowCache>> ResidentCache::open(RowSource& source,
                                                      const RowCacheOptions& options) {
  const std::uint64_t bytes = source.row_count() * slot_bytes_of(source.encoding());
  PLE_TRY_ASSIGN(auto arena, options.slot_memory(bytes));
  auto cache = std::make_unique<ResidentCache>(source, std::move(arena));
  PLE_TRY(cache->read_table(options));
  return std::unique_ptr<RowCache>(std::move(cache));
}

// Two chunks take turns: one is read while the other is waited for and, in device memory, uploaded.
Status ResidentCache::read_table(const RowCacheOptions& options) {
  std::array<Chunk, 2> chunks;
  for (Chunk& chunk : chunks) {
    chunk.batch = source_.make_batch();
    chunk.reads.reserve(kChunkRows);
    if (arena_->host_address() != nullptr) continue;
    PLE_TRY_ASSIGN(chunk.landing, options.landing_memory(kChunkRows * slot_bytes_));
  }
  const auto finish = [&](Chunk& chunk) -> Status {
    if (chunk.reads.empty()) return {};
    PLE_TRY(chunk.batch->wait(options.read_deadline));
    const std::size_t bytes = chunk.reads.size() * slot_bytes_;
    chunk.reads.clear();
    if (chunk.landing == nullptr) return {};
    return arena_->upload(chunk.first_row * slot_bytes_, {chunk.landing->host_address(), bytes});
  };
  const auto submit = [&](Chunk& chunk, std::uint64_t first_row) {
    chunk.first_row = first_row;
    std::byte* destination = chunk.landing != nullptr
                                 ? chunk.landing->host_address()
                                 : arena_->host_address() + first_row * slot_bytes_;
    const std::uint64_t end = std::min(first_row + kChunkRows, source_.row_count());
    for (std::uint64_t row = first_row; row < end; ++row, destination += slot_bytes_) {
      chunk.reads.push_back({static_cast<RowId>(row), destination});
    }
    Status status = source_.submit(chunk.reads, chunk.batch);
    if (!status.is_ok()) chunk.reads.clear();
    return status;
  };
  std::size_t turn = 0;
  for (std::uint64_t row = 0; row < source_.row_count(); row += kChunkRows, turn ^= 1) {
    PLE_TRY(finish(chunks[turn]));
    PLE_TRY(submit(chunks[turn], row));
  }
  PLE_TRY(finish(chunks[turn]));
  return finish(chunks[turn ^ 1]);
}

void ResidentCache::count_rows(std::span<const SlotId> slots) {
  SlotId without_row = 0;  // in the slots' type, so that a vector of them is compared at once
  for (const SlotId slot : slots) without_row += static_cast<SlotId>(slot == kZeroSlot);
  const std::uint64_t row_count = slots.size() - without_row;
  counters_.add({.rows_asked = row_count, .rows_distinct = row_count, .rows_hit = row_count});
}

Result<std::unique_ptr<StagedRows>> ResidentCache::make_staged(std::size_t ids_max) {
  return std::unique_ptr<StagedRows>(std::make_unique<Rows>(*this, ids_max));
}

Status ResidentCache::stage(std::span<const RowId> ids, StagedRows& staged) {
  auto* const rows = dynamic_cast<Rows*>(&staged);
  if (rows == nullptr || !rows->belongs_to(*this)) {
    return error(StatusCode::invalid_argument, "staged rows of another cache");
  }
  PLE_TRY(check_row_ids(ids, source_.row_count()));
  return rows->stage(ids);
}

Result<std::size_t> ResidentCache::prefetch(std::span<const RowId> ids, std::size_t) {
  PLE_TRY(check_row_ids(ids, source_.row_count()));
  return ids.size();
}

}  // namespace ple
