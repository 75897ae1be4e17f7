#include "engine/device_step.hpp"

#include <utility>

#include "base/error.hpp"

namespace ple {

Result<std::unique_ptr<DeviceStep>> DeviceStep::create(AsyncDevice& device, InFlight& in_flight,
                                                       std::vector<StagedRows*> rows,
                                                       std::size_t states_max) {
  std::unique_ptr<DeviceStep> step(new DeviceStep(device, in_flight));
  in_flight.enroll(step->lease_);
  step->lease_.rows = std::move(rows);
  step->lease_.states.reserve(states_max);
  PLE_TRY_ASSIGN(step->lease_.fence, device.make_fence());
  if (device.has_graph_wait()) {
    PLE_TRY_ASSIGN(step->flag_, device.make_flag());
  }
  return step;
}

DeviceStep::~DeviceStep() {
  if (!in_flight_.end(lease_).is_ok()) {
    // A device that does not answer even now runs nothing any more.
    static_cast<void>(device_.wait_for_all());
    in_flight_.end_now(lease_);
  }
  in_flight_.dismiss(lease_);
}

Status DeviceStep::begin() {
  PLE_TRY(in_flight_.end(lease_));
  in_flight_.end_passed();
  lease_.fence->clear();
  has_placed_ = false;
  has_fence_ = false;
  is_prepared_ = false;
  if (flag_ != nullptr) device_.lower_flag(*flag_);
  return {};
}

Status DeviceStep::place(void* stream) {
  PLE_TRY(lease_.fence->reserve(stream));
  has_placed_ = true;
  for (StagedRows* rows : lease_.rows) PLE_TRY(rows->place(device_.placements()));
  return device_.join_placements(stream);
}

Status DeviceStep::record(void* stream) {
  Status status = lease_.fence->record(stream);
  if (status.is_ok()) {
    has_fence_ = true;
  } else {
    static_cast<void>(device_.wait_for_all());
  }
  return status;
}

Status DeviceStep::capture_wait(void* stream) {
  if (flag_ == nullptr) {
    return error(StatusCode::unsupported,
                 "a graph on this device cannot wait for rows (graph_wait is 0): prepare the step "
                 "before the graph is launched, outside of the capture");
  }
  PLE_TRY(device_.wait_for_flag(*flag_, stream));
  has_captured_wait_ = true;
  return {};
}

Status DeviceStep::capture_run(std::size_t run_index, void* stream) {
  return has_captured_wait_ ? lease_.fence->capture(run_index, stream) : Status();
}

Status DeviceStep::let_go(void* stream) {
  if (has_captured_wait_) PLE_TRY(device_.raise_flag(*flag_));
  is_prepared_ = true;
  prepared_stream_ = stream;
  return has_captured_wait_ ? await_flag() : Status();
}

Status DeviceStep::end_wait() {
  PLE_TRY(device_.raise_flag(*flag_));
  return await_flag();
}

// The flag must have risen before the next batch lowers it.
Status DeviceStep::await_flag() {
  PLE_TRY(lease_.fence->record_placements());
  has_fence_ = true;
  return {};
}

Status DeviceStep::record_prepared() { return is_prepared_ ? record(prepared_stream_) : Status(); }

void DeviceStep::end() {
  if (has_placed_ && !has_fence_) {
    has_fence_ = lease_.fence->record_placements().is_ok();
    if (!has_fence_) static_cast<void>(device_.wait_for_all());
  }
  in_flight_.add(lease_);
  if (!has_fence_) in_flight_.end_now(lease_);
}

}  // namespace ple
