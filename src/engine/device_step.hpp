#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "engine/backend.hpp"
#include "engine/in_flight.hpp"

namespace ple {

// What a step needs on a device that runs beside the host: who waits for whom. A batch begins, its
// rows are placed, it is run or prepared for a captured run, and it ends for the host; the device
// may be behind. The addresses of a step are the same for all batches, so the next one begins only
// when the device has passed the one before.
class DeviceStep {
 public:
  // rows: of the step's layers, all released; they outlive this object.
  static Result<std::unique_ptr<DeviceStep>> create(AsyncDevice& device, InFlight& in_flight,
                                                    std::vector<StagedRows*> rows,
                                                    std::size_t states_max);
  // Waits for the device.
  ~DeviceStep();

  Result<bool> is_capturing(void* stream) { return device_.is_capturing(stream); }

  // Waits until the device has passed the batch before. What other steps hold in vain is freed.
  Status begin();
  // The carried states that the batch uses, up to states_max; filled while it is staged.
  std::vector<std::shared_ptr<SlotMemory>>& states() { return lease_.states; }
  // Every row is placed before what follows on the stream. To record that takes no memory.
  Status place(void* stream);
  // After work was enqueued on the stream. On failure the device is waited for.
  Status record(void* stream);

  // Captures a wait for the rows: from now on the step's captured runs may be launched before.
  Status capture_wait(void* stream);
  bool has_captured_wait() const { return has_captured_wait_; }
  // After a run was captured on the stream: behind such a wait, it may be launched by whom nobody
  // tells of it, and the batch is over only when it is.
  Status capture_run(std::size_t run_index, void* stream);
  // Captured runs launched on this stream, before or from now on, find their batch.
  Status let_go(void* stream);
  // Captured waits end, whatever stream they are on; there is one.
  Status end_wait();
  bool is_prepared() const { return is_prepared_; }

  // Whatever was launched on the prepared stream by now belongs to the batch.
  Status record_prepared();
  // The batch is over for the host: its rows are released when the device has passed it. Needs no
  // memory.
  void end();

 private:
  Status await_flag();
  DeviceStep(AsyncDevice& device, InFlight& in_flight) : device_(device), in_flight_(in_flight) {}

  AsyncDevice& device_;
  InFlight& in_flight_;
  StepLease lease_;
  std::unique_ptr<SlotMemory> flag_;  // what captured waits wait for; null: not on this device
  bool has_captured_wait_ = false;

  bool has_placed_ = false;   // of the present batch
  bool has_fence_ = false;    // likewise
  bool is_prepared_ = false;  // likewise
  void* prepared_stream_ = nullptr;
};

}  // namespace ple
