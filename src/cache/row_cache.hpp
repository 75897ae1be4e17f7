#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "table/row_source.hpp"

namespace ple {

class RowCache;

// The memory that slots lie in. Host memory is written by the reading threads directly. Device
// memory is not host-visible: rows land in pinned landing memory and are placed into their slots by
// the backend (see StagedRows::place).
class SlotMemory {
 public:
  virtual ~SlotMemory() = default;
  // The address of the first slot for the host, or nullptr when only the device sees the slots.
  virtual std::byte* host_address() = 0;
  // The same for the kernels.
  virtual std::byte* kernel_address() = 0;
  virtual std::size_t bytes() const = 0;
  // Copies source to the slots at offset and returns when it is there. Only called at open, to fill
  // a resident table in memory that the host does not see.
  virtual Status upload(std::size_t offset, std::span<const std::byte> source) = 0;
};

// Makes slot memory of a given size: for the arena and for each step's staging area.
using SlotMemoryFactory = std::function<Result<std::unique_ptr<SlotMemory>>(std::size_t bytes)>;

// Host memory, zero until written, with huge pages where the system has them.
Result<std::unique_ptr<SlotMemory>> make_host_slot_memory(std::size_t bytes);

struct RowCacheOptions {
  // Of the arena, rounded down to whole sets of 16 slots, and to the table's size. 0 is valid.
  std::uint64_t cache_bytes = 0;
  bool resident = false;  // the whole table in the arena, read at open
  std::chrono::nanoseconds read_deadline = std::chrono::seconds(30);
  SlotMemoryFactory slot_memory = make_host_slot_memory;     // where arena and staging lie
  SlotMemoryFactory landing_memory = make_host_slot_memory;  // pinned; for device slot memory only
};

// Row counters since the cache was opened; a snapshot, monotone. A resident table needs no search
// for duplicates, so that it counts every id as a distinct row and a hit.
struct RowCacheMetrics {
  std::uint64_t rows_asked = 0;     // ids staged, duplicates included, kNoRow not
  std::uint64_t rows_distinct = 0;  // summed over steps
  std::uint64_t rows_hit = 0;       // distinct rows found in the arena (or on their way to it)
  std::uint64_t rows_missed = 0;    // distinct rows read for a step
  std::uint64_t rows_staged = 0;    // of those: that found no slot and went to staging
  std::uint64_t rows_reread = 0;    // hits on a read of another step that failed, read again
  std::uint64_t rows_prefetched = 0;
  std::uint64_t rows_evicted = 0;
};

// From landing slot landing_index (pinned) into slot.
struct Placement {
  std::uint32_t landing_index = 0;
  SlotId slot = kZeroSlot;
};

// Copies rows from landing memory into their slots. One per device, shared by its steps: enqueue
// puts the copies of row landing + landing_index * slot_bytes to its slot (addressed by view) on
// the one placement stream and returns. Calls come one at a time.
class PlacementSink {
 public:
  virtual ~PlacementSink() = default;
  virtual Status enqueue(const RowView& view, const std::byte* landing,
                         std::span<const Placement> placements) = 0;
};

// The rows of one step and one layer: its slots, its leases, its staging area, its reads in flight.
// Owned by a step and reused from step to step; destroyed before its cache. Not thread-safe;
// different objects are independent.
class StagedRows {
 public:
  virtual ~StagedRows() = default;

  // [ids] one slot for every id given to stage, duplicates included; kNoRow gives kZeroSlot. Final
  // after wait, which moves a row to staging where another step's read failed. The span's address
  // is stable for the life of the object.
  virtual std::span<const SlotId> slots() const = 0;

  // What the kernels need to address the slots; constant for the life of the object.
  virtual RowView view() const = 0;

  // Whether wait or ready has changed slots() since stage.
  virtual bool has_moved() const { return false; }

  // Whether wait would return at once.
  virtual bool ready() = 0;

  // Blocks until every row is in its slot (host memory) or landing memory (device memory). On
  // failure the sentence names the row and file; slots() must not be used, release() is still due.
  virtual Status wait() = 0;

  // Device memory only, after wait: gives the sink what must be copied into slots before the
  // kernels run and has not been given yet, by this step or by another. When it returns, every row
  // of this step is on the placement stream: the kernels wait for that stream's latest event.
  // Nothing to do in host memory, nor when called again.
  virtual Status place(PlacementSink& sink) = 0;

  // Ends the lease: slots may be reused. Called when the device has passed the step's fence (and
  // with it the placements that the step waited for); a step that is given up after place is
  // released when the placement stream's event has passed. Reads in flight go on for others.
  // Harmless when nothing is staged.
  virtual void release() = 0;
};

// A bounded set-associative cache of encoded rows in front of a RowSource. Thread-safe: several
// steps stage and release at the same time.
//
// Sets of 16 ways: one 64-byte line of row ids and one 64-byte line of 4-byte marks (lease epoch,
// use bits, state) per set: 8 bytes of metadata a slot. A step leases every slot it uses by writing
// its epoch into the mark; a slot may be overwritten only when its epoch has retired.
class RowCache {
 public:
  static Result<std::unique_ptr<RowCache>> open(RowSource& source, const RowCacheOptions& options);
  virtual ~RowCache() = default;

  // Room for steps of up to ids_max ids; stage allocates nothing up to that size and refuses more.
  virtual Result<std::unique_ptr<StagedRows>> make_staged(std::size_t ids_max) = 0;

  // Looks the ids up, leases their slots, starts reading what is missing, and returns without
  // waiting. On failure nothing is leased. The staged rows of the step before must be released.
  virtual Status stage(std::span<const RowId> ids, StagedRows& staged) = 0;

  // Reads under way for prefetches: more are not started.
  static constexpr std::size_t kPrefetchesMax = 64;

  // Starts reading rows that a later step will ask for into free or cold slots, without evicting a
  // leased one, and returns at once; rows that find no place are dropped. Returns how many of the
  // ids, from the first, it has seen to: not all while prefetches_max loads of them are under way
  // (in device memory until a step has placed them).
  virtual Result<std::size_t> prefetch(std::span<const RowId> ids,
                                       std::size_t prefetches_max = kPrefetchesMax) = 0;

  // The ids in the arena, hottest first, at most count: to be saved and prefetched at next open.
  virtual std::vector<RowId> hot_rows(std::size_t count) const = 0;

  virtual RowCacheMetrics metrics() const = 0;
  virtual std::uint32_t slot_count() const = 0;
  // Steps staged and not yet released.
  virtual std::size_t leases_outstanding() const = 0;
};

}  // namespace ple
