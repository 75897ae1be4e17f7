#include "cache/set_cache.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "cache/find_slots.hpp"
#include "cache/row_requests.hpp"
#include "cache/step_rows.hpp"

namespace ple {

namespace {

// Rows of one prefetch load: a step that joins one of them waits for all of them.
constexpr std::size_t kPrefetchRows = 2048;

// Ends the reference of whoever opened a load.
struct DropReference {
  SlotSets& sets;
  void operator()(RowLoad* load) const { load->drop_reference(sets); }
};

}  // namespace

SharedRows::SharedRows(RowSource& row_source, const RowCacheOptions& options,
                       std::unique_ptr<SlotMemory> arena_memory, SlotSets slot_sets,
                       std::uint32_t bytes_of_slot)
    : source(row_source),
      read_deadline(options.read_deadline),
      slot_memory(options.slot_memory),
      slot_bytes(bytes_of_slot),
      arena(std::move(arena_memory)),
      sets(std::move(slot_sets)),
      loads(source, sets, arena->host_address() == nullptr ? options.landing_memory : nullptr,
            slot_bytes) {}

RowView SharedRows::view(SlotMemory* staging) const {
  return {.arena = arena->kernel_address(),
          .staging = staging->kernel_address(),
          .arena_slot_count = sets.slot_count(),
          .slot_bytes = slot_bytes,
          .encoding = source.encoding()};
}

std::byte* SharedRows::host_slot(SlotId slot) const {
  std::byte* const host = arena->host_address();
  return host == nullptr ? nullptr : host + std::size_t{slot} * slot_bytes;
}

Result<std::unique_ptr<RowCache>> SetCache::open(RowSource& source,
                                                 const RowCacheOptions& options) {
  const std::uint32_t slot_bytes = slot_bytes_of(source.encoding());
  const std::uint64_t set_bytes = std::uint64_t{kWayCount} * slot_bytes;
  const std::uint64_t table_sets = (source.row_count() + kWayCount - 1) / kWayCount;
  const std::uint64_t set_count = std::min(options.cache_bytes / set_bytes, table_sets);
  // An empty arena still says whether the host sees slots.
  const std::uint64_t arena_bytes = std::max(set_count * set_bytes, std::uint64_t{slot_bytes});
  PLE_TRY_ASSIGN(auto sets, SlotSets::make(static_cast<std::uint32_t>(set_count)));
  PLE_TRY_ASSIGN(auto arena, options.slot_memory(arena_bytes));
  return std::unique_ptr<RowCache>(
      std::make_unique<SetCache>(source, options, std::move(arena), std::move(sets), slot_bytes));
}

Result<std::unique_ptr<StagedRows>> SetCache::make_staged(std::size_t ids_max) {
  const std::uint64_t slot_limit = kZeroSlot - std::uint64_t{shared_.sets.slot_count()};
  if (ids_max >= slot_limit) {
    return error(StatusCode::invalid_argument, "a step of {} row ids beside {} slots", ids_max,
                 shared_.sets.slot_count());
  }
  const std::size_t row_count = std::max<std::size_t>(ids_max, 1);
  PLE_TRY_ASSIGN(auto staging, shared_.slot_memory(row_count * shared_.slot_bytes));
  PLE_TRY(shared_.loads.reserve(row_count));
  return std::unique_ptr<StagedRows>(
      std::make_unique<StepRows>(shared_, ids_max, std::move(staging)));
}

Status SetCache::stage(std::span<const RowId> ids, StagedRows& staged) {
  auto* const step = dynamic_cast<StepRows*>(&staged);
  if (step == nullptr || !step->belongs_to(shared_)) {
    return error(StatusCode::invalid_argument, "staged rows of another cache");
  }
  PLE_TRY(check_row_ids(ids, shared_.source.row_count()));
  return step->stage(ids);
}

Result<std::size_t> SetCache::prefetch(std::span<const RowId> ids, std::size_t prefetches_max) {
  PLE_TRY(check_row_ids(ids, shared_.source.row_count()));
  if (slot_count() == 0) return ids.size();
  for (std::size_t begin = 0; begin < ids.size(); begin += kPrefetchRows) {
    const std::size_t count = std::min(ids.size() - begin, kPrefetchRows);
    PLE_TRY_ASSIGN(const bool is_started,
                   prefetch_chunk(ids.subspan(begin, count), prefetches_max));
    if (!is_started) return begin;
  }
  return ids.size();
}

Result<bool> SetCache::prefetch_chunk(std::span<const RowId> ids, std::size_t prefetches_max) {
  PLE_TRY_ASSIGN(RowLoad* const load, shared_.loads.open_prefetch(kPrefetchRows, prefetches_max));
  if (load == nullptr) return false;
  const std::unique_ptr<RowLoad, DropReference> reference(load, {shared_.sets});
  // No open step has the floor's epoch: nobody takes the slot for its own.
  const std::uint32_t floor = short_epoch(shared_.epochs.floor());
  RowCacheMetrics counted;
  shared_.sets.prefetch(ids);
  for (const RowId row : ids) {
    if (row == kNoRow) continue;
    SlotId slot = kNoSlot;
    shared_.sets.find(&row, 1, 1, &slot);
    if (slot != kNoSlot) continue;
    const MutexLock lock(shared_.sets.lock_of(row));
    shared_.sets.find(&row, 1, 1, &slot);
    if (slot != kNoSlot) continue;
    const Claim claim = shared_.sets.claim(row, floor, floor, load->index(), true);
    if (claim.slot == kZeroSlot) continue;
    load->add(row, claim, shared_.host_slot(claim.slot), shared_.slot_bytes);
    ++counted.rows_prefetched;
    if (claim.evicted) ++counted.rows_evicted;
  }
  if (counted.rows_prefetched == 0) {
    load->give_up(shared_.sets, {});
    return true;
  }
  PLE_TRY(load->submit(shared_.source, shared_.sets));
  shared_.counters.add(counted);
  return true;
}

std::vector<RowId> SetCache::hot_rows(std::size_t count) const {
  struct Candidate {
    std::uint32_t rank;
    RowId row;
  };
  const std::uint32_t now = short_epoch(shared_.epochs.floor());
  std::vector<Candidate> candidates;
  for (SlotId slot = 0; slot < slot_count(); ++slot) {
    const RowId row = shared_.sets.row(slot);
    const SlotMark mark = shared_.sets.mark(slot);
    if (row == kNoRow || mark.state() != SlotState::ready) continue;
    const std::uint32_t age =
        is_newer(mark.epoch(), now) ? 0 : (now - mark.epoch()) & SlotMark::kEpochMask;
    candidates.push_back({mark.use() << SlotMark::kEpochBits | (SlotMark::kEpochMask - age), row});
  }
  count = std::min(count, candidates.size());
  const auto hotter = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.row < b.row;
  };
  const auto hot_end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
  std::nth_element(candidates.begin(), hot_end, candidates.end(), hotter);
  std::sort(candidates.begin(), hot_end, hotter);
  std::vector<RowId> rows(count);
  std::transform(candidates.begin(), hot_end, rows.begin(),
                 [](const Candidate& candidate) { return candidate.row; });
  return rows;
}

}  // namespace ple
