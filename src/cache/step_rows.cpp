#include "cache/step_rows.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/error.hpp"
#include "cache/find_slots.hpp"
#include "cache/row_requests.hpp"

namespace ple {

namespace {

// Ids looked up before their slots are leased: lookups overlap in the processor, leases (locked
// swaps) do not.
constexpr std::size_t kBlockIds = 32;

}  // namespace

StepRows::StepRows(SharedRows& shared, std::size_t ids_max, std::unique_ptr<SlotMemory> staging)
    : shared_(shared), staging_(std::move(staging)), slots_(ids_max), map_(ids_max) {
  misses_.reserve(ids_max);
  shared_slots_.reserve(ids_max);
  joined_rows_.reserve(ids_max);
  joined_loads_.reserve(SlotMark::kLoadIndexCount);
  placed_loads_.reserve(RowCache::kPrefetchesMax);
}

Status StepRows::stage(std::span<const RowId> ids) {
  if (is_staged_) {
    return error(StatusCode::wrong_state, "the {} rows staged before are not released", id_count_);
  }
  PLE_TRY(check_step(ids.size(), slots_.size(), shared_.slot_bytes));
  is_staged_ = true;
  is_waited_ = false;
  is_placed_ = false;
  shared_slots_.clear();
  outcome_ = {};
  counted_ = {};
  staging_count_ = 0;
  id_count_ = ids.size();
  epoch_ = shared_.epochs.open().value_or(0);
  lease_hits(ids);
  if (!misses_.empty()) {
    if (Status status = fetch_misses(ids); !status.is_ok()) {
      release();
      return status;
    }
  }
  count_rows();
  return {};
}

void StepRows::lease_hits(std::span<const RowId> ids) {
  const std::uint32_t epoch = short_epoch(epoch_);
  const bool has_leases = epoch_ != 0 && shared_.sets.slot_count() > 0;
  misses_.clear();
  if (has_leases) shared_.sets.prefetch(ids);
  for (std::size_t begin = 0; begin < ids.size(); begin += kBlockIds) {
    const std::size_t end = std::min(begin + kBlockIds, ids.size());
    if (has_leases) {
      shared_.sets.find(&ids[begin], end - begin, ids.size() - begin, &slots_[begin]);
    } else {
      std::fill(&slots_[begin], &slots_[begin] + (end - begin), kNoSlot);
    }
    for (std::size_t index = begin; index < end; ++index) {
      if (ids[index] == kNoRow) {
        slots_[index] = kZeroSlot;
        continue;
      }
      ++counted_.rows_asked;
      const Lease lease = slots_[index] == kNoSlot
                              ? Lease::lost
                              : shared_.sets.lease(slots_[index], ids[index], epoch);
      if (lease == Lease::fresh) {
        ++counted_.rows_hit;
      } else if (lease == Lease::shared) {
        shared_slots_.push_back(slots_[index]);
      } else if (lease != Lease::repeated) {
        misses_.push_back(static_cast<std::uint32_t>(index));
      }
    }
  }
}

Status StepRows::fetch_misses(std::span<const RowId> ids) {
  PLE_TRY_ASSIGN(load_, shared_.loads.open(misses_.size()));
  map_.clear(misses_.size());
  for (const std::uint32_t index : misses_) slots_[index] = resolve_miss(ids[index]);
  if (counted_.rows_missed > 0) return load_->submit(shared_.source, shared_.sets);
  load_->give_up(shared_.sets, {});
  std::exchange(load_, nullptr)->drop_reference(shared_.sets);
  return {};
}

SlotId StepRows::resolve_miss(RowId row) {
  if (const std::uint32_t* slot = map_.find(row)) return *slot;
  if (epoch_ != 0 && shared_.sets.slot_count() > 0) {
    if (const SlotId slot = resolve_in_set(row); slot != kZeroSlot) return slot;
  }
  ++counted_.rows_missed;
  ++counted_.rows_staged;
  const SlotId slot = put_in_staging(*load_, row);
  map_.insert(row, slot);
  return slot;
}

// The slot of a row in its set: found after all, joined, or claimed; kZeroSlot if all are leased.
SlotId StepRows::resolve_in_set(RowId row) {
  const MutexLock lock(shared_.sets.lock_of(row));
  for (;;) {
    SlotId slot = kNoSlot;
    shared_.sets.find(&row, 1, 1, &slot);
    if (slot == kNoSlot) return claim_way(row);
    switch (shared_.sets.lease(slot, row, short_epoch(epoch_))) {
      case Lease::fresh:
        ++counted_.rows_hit;
        return slot;
      case Lease::shared:
        shared_slots_.push_back(slot);
        return slot;
      case Lease::repeated:
        return slot;
      case Lease::loading:
        if (join(slot, row)) return slot;
        break;
      case Lease::lost:
        break;  // its read failed just now: look again
    }
  }
}

bool StepRows::join(SlotId slot, RowId row) {
  const SlotMark seen = shared_.sets.mark(slot);
  if (seen.state() != SlotState::loading) return false;
  RowLoad& load = shared_.loads.at(seen.load_index());
  if (&load == load_) return true;  // this step's own miss, which a later step joined
  const bool is_held =
      std::find(joined_loads_.begin(), joined_loads_.end(), &load) != joined_loads_.end();
  if (!is_held && !load.try_reference()) return false;
  if (!shared_.sets.join(slot, row, short_epoch(epoch_), seen)) {
    if (!is_held) load.drop_reference(shared_.sets);
    return false;
  }
  if (!is_held) joined_loads_.push_back(&load);
  joined_rows_.push_back({row, slot});
  ++counted_.rows_hit;
  // The read may fail before the next id of this row is resolved; it belongs to this slot all the
  // same, so that read_again moves them together.
  map_.insert(row, slot);
  return true;
}

SlotId StepRows::claim_way(RowId row) {
  const Claim claim = shared_.sets.claim(
      row, short_epoch(epoch_), short_epoch(shared_.epochs.floor()), load_->index(), false);
  if (claim.slot == kZeroSlot) return kZeroSlot;
  ++counted_.rows_missed;
  if (claim.evicted) ++counted_.rows_evicted;
  load_->add(row, claim, shared_.host_slot(claim.slot), shared_.slot_bytes);
  return claim.slot;
}

SlotId StepRows::put_in_staging(RowLoad& load, RowId row) {
  std::byte* const host = staging_->host_address();
  std::byte* const destination =
      host == nullptr ? nullptr : host + std::size_t{staging_count_} * shared_.slot_bytes;
  const SlotId slot = shared_.sets.slot_count() + staging_count_++;
  load.add(row, {.slot = slot}, destination, shared_.slot_bytes);
  return slot;
}

// rows_hit counts the fresh leases. Of a slot that a later step has leased as well, the mark does
// not tell any more whether this step saw it before.
void StepRows::count_rows() {
  if (!shared_slots_.empty()) counted_.rows_hit += count_never_fresh();
  counted_.rows_distinct = counted_.rows_hit + counted_.rows_missed;
  shared_.counters.add(counted_);
}

// The slots that were found leased by a later step each time they were found at all.
std::uint64_t StepRows::count_never_fresh() {
  constexpr std::uint32_t kFilterBits = 16;
  std::array<std::uint64_t, (1U << kFilterBits) / 64> filter{};
  const auto bit_of = [](SlotId slot) { return (slot * 0x9E3779B1U) >> (32 - kFilterBits); };
  map_.clear(shared_slots_.size());
  for (const SlotId slot : shared_slots_) {
    filter[bit_of(slot) / 64] |= std::uint64_t{1} << bit_of(slot) % 64;
    if (!map_.insert(slot, 1)) ++*map_.find(slot);
  }
  // Most slots do not pass the filter, which stays in the innermost cache.
  for (const SlotId slot : slots()) {
    if ((filter[bit_of(slot) / 64] >> bit_of(slot) % 64 & 1) == 0) continue;
    if (std::uint32_t* const times_left = map_.find(slot)) --*times_left;
  }
  std::uint64_t count = 0;
  for (const SlotId slot : shared_slots_) {
    if (std::uint32_t& times_left = *map_.find(slot); times_left == 0) {
      times_left = 1;
      ++count;
    }
  }
  return count;
}

bool StepRows::ready() {
  if (!is_staged_ || is_waited_) return true;
  if (load_ != nullptr && !load_->done()) return false;
  for (const RowLoad* load : joined_loads_) {
    if (!load->done()) return false;
  }
  if (second_load_ == nullptr && !joined_rows_.empty()) {
    outcome_ = read_again(std::chrono::nanoseconds(0));
  }
  return second_load_ == nullptr || second_load_->done();
}

Status StepRows::wait() {
  if (!is_staged_ || is_waited_) return outcome_;
  if (outcome_.is_ok()) outcome_ = wait_for_loads();
  is_waited_ = true;
  return outcome_;
}

Status StepRows::wait_for_loads() {
  if (load_ != nullptr) PLE_TRY(load_->complete(shared_.read_deadline, shared_.sets));
  PLE_TRY(read_again(shared_.read_deadline));
  if (second_load_ == nullptr) return {};
  return second_load_->complete(shared_.read_deadline, shared_.sets);
}

// Reads the joined rows that failed for the other step into this step's staging, where nothing but
// its own reads can fail it. deadline is of all the joined reads together.
Status StepRows::read_again(std::chrono::nanoseconds deadline) {
  const auto start = std::chrono::steady_clock::now();
  for (RowLoad* load : joined_loads_) {
    const auto waited = std::chrono::steady_clock::now() - start;
    static_cast<void>(
        load->complete(std::max<std::chrono::nanoseconds>(deadline - waited, {}), shared_.sets));
  }
  const auto has_failed = [&](const JoinedRow& joined) {
    return shared_.sets.row(joined.slot) != joined.row;
  };
  const auto failed_end = std::partition(joined_rows_.begin(), joined_rows_.end(), has_failed);
  joined_rows_.erase(failed_end, joined_rows_.end());
  if (joined_rows_.empty()) return {};
  PLE_TRY_ASSIGN(second_load_, shared_.loads.open(joined_rows_.size()));
  map_.clear(joined_rows_.size());
  for (const JoinedRow& joined : joined_rows_) {
    if (map_.find(joined.slot) != nullptr) continue;
    map_.insert(joined.slot, put_in_staging(*second_load_, joined.row));
  }
  for (std::size_t index = 0; index < id_count_; ++index) {
    if (const std::uint32_t* slot = map_.find(slots_[index])) slots_[index] = *slot;
  }
  shared_.counters.add({.rows_reread = map_.size()});
  joined_rows_.clear();
  return second_load_->submit(shared_.source, shared_.sets);
}

Status StepRows::place(PlacementSink& sink) {
  if (!is_staged_ || is_placed_ || shared_.arena->host_address() != nullptr) return {};
  if (!is_waited_) {
    return error(StatusCode::wrong_state, "{} rows are placed before they were waited for",
                 id_count_);
  }
  PLE_TRY(outcome_);
  const MutexLock lock(shared_.loads.placement_mutex());
  for (RowLoad* load : {load_, second_load_}) {
    if (load != nullptr) PLE_TRY(load->place(sink, view(), true, shared_.sets));
  }
  shared_.loads.reference_unplaced_prefetches(placed_loads_);
  for (const std::vector<RowLoad*>* loads : {&joined_loads_, &placed_loads_}) {
    for (RowLoad* load : *loads) PLE_TRY(load->place(sink, view(), false, shared_.sets));
  }
  is_placed_ = true;
  return {};
}

void StepRows::release() {
  if (!is_staged_) return;
  for (RowLoad** opened : {&load_, &second_load_}) {
    RowLoad* const load = std::exchange(*opened, nullptr);
    if (load == nullptr) continue;
    // The next step uses the staging area: reads into it must be over.
    if (staging_count_ > 0) {
      static_cast<void>(load->complete(std::chrono::nanoseconds(0), shared_.sets));
    }
    load->drop_reference(shared_.sets);
  }
  for (std::vector<RowLoad*>* loads : {&joined_loads_, &placed_loads_}) {
    for (RowLoad* load : *loads) load->drop_reference(shared_.sets);
    loads->clear();
  }
  joined_rows_.clear();
  if (epoch_ != 0) {
    shared_.epochs.retire(epoch_);
    shared_.sets.sweep(epoch_, shared_.epochs.floor());
  }
  id_count_ = 0;
  is_staged_ = false;
}

}  // namespace ple
