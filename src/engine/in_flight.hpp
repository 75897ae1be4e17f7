#pragma once

#include <memory>
#include <vector>

#include "base/mutex.hpp"
#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "engine/backend.hpp"

namespace ple {

// What a step that is over for the host holds until the device has passed its fence: the slots of
// its rows, and its sequences' carried state.
struct StepLease {
  std::unique_ptr<Fence> fence;
  std::vector<StagedRows*> rows;
  std::vector<std::shared_ptr<SlotMemory>> states;
  bool is_in_flight = false;  // InFlight's; the rest belongs to the step while it is false
};

// The steps of an engine that are over for the host and perhaps not for the device. Thread-safe.
class InFlight {
 public:
  // Between these two a lease may be added, and end, any number of times.
  void enroll(StepLease& lease) PLE_EXCLUDES(mutex_);
  void dismiss(StepLease& lease) PLE_EXCLUDES(mutex_);

  // Needs no memory.
  void add(StepLease& lease) PLE_EXCLUDES(mutex_);

  // Ends the leases that the device has passed. One whose fence fails stays.
  void end_passed() PLE_EXCLUDES(mutex_);

  // Ends the lease, if it was added, when the device has passed it.
  Status end(StepLease& lease) PLE_EXCLUDES(mutex_);

  // Ends it at once: nothing runs on the device any more.
  void end_now(StepLease& lease) PLE_EXCLUDES(mutex_);

  // Returns when the device has passed all that use this state.
  Status wait_for(const SlotMemory& state) PLE_EXCLUDES(mutex_);

 private:
  // Whether the device still does.
  Result<bool> uses(const SlotMemory& state) PLE_EXCLUDES(mutex_);
  static void give_back(StepLease& lease);

  Mutex mutex_;
  std::vector<StepLease*> leases_ PLE_GUARDED_BY(mutex_);  // of all steps, in flight or not
};

}  // namespace ple
