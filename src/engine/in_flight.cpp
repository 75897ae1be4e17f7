#include "engine/in_flight.hpp"

#include <algorithm>
#include <thread>

namespace ple {

void InFlight::enroll(StepLease& lease) {
  const MutexLock lock(mutex_);
  leases_.push_back(&lease);
}

void InFlight::dismiss(StepLease& lease) {
  const MutexLock lock(mutex_);
  std::erase(leases_, &lease);
}

void InFlight::add(StepLease& lease) {
  const MutexLock lock(mutex_);
  lease.is_in_flight = true;
}

void InFlight::give_back(StepLease& lease) {
  for (StagedRows* rows : lease.rows) rows->release();
  lease.states.clear();
  lease.is_in_flight = false;
}

void InFlight::end_passed() {
  const MutexLock lock(mutex_);
  for (StepLease* lease : leases_) {
    if (!lease->is_in_flight) continue;
    const Result<bool> is_passed = lease->fence->is_passed();
    if (is_passed.is_ok() && is_passed.value()) give_back(*lease);
  }
}

Status InFlight::end(StepLease& lease) {
  {
    const MutexLock lock(mutex_);
    if (!lease.is_in_flight) return {};
  }
  // Others may wait for it, or end it, meanwhile.
  PLE_TRY(lease.fence->wait());
  end_now(lease);
  return {};
}

void InFlight::end_now(StepLease& lease) {
  const MutexLock lock(mutex_);
  if (lease.is_in_flight) give_back(lease);
}

Status InFlight::wait_for(const SlotMemory& state) {
  // No fence is waited for: under the lock others could not go on, and the device may need what
  // they do next; without it the step may record the fence anew, or end with it. And nobody else
  // says when the device has passed one, so it is asked.
  for (;;) {
    PLE_TRY_ASSIGN(const bool is_used, uses(state));
    if (!is_used) return {};
    std::this_thread::yield();
  }
}

Result<bool> InFlight::uses(const SlotMemory& state) {
  const MutexLock lock(mutex_);
  for (const StepLease* lease : leases_) {
    if (!lease->is_in_flight) continue;
    const bool has_state = std::any_of(lease->states.begin(), lease->states.end(),
                                       [&](const auto& used) { return used.get() == &state; });
    if (!has_state) continue;
    PLE_TRY_ASSIGN(const bool is_passed, lease->fence->is_passed());
    if (!is_passed) return true;
  }
  return false;
}

}  // namespace ple
