#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/status.hpp"
#include "base/thread_pool.hpp"
#include "cache/row_cache.hpp"
#include "checkpoint/model_spec.hpp"
#include "engine/layer.hpp"
#include "engine/options.hpp"

namespace ple {

// How a layer's operators shall compute.
struct LayerOptions {
  kernels::Arithmetic arithmetic = kernels::Arithmetic::float32;
  Projection projection = Projection::automatic;
  std::int32_t ring_length = 0;  // positions of carried state; 0 without
};

// Says when the device is done with what was enqueued for a step. is_passed and wait may be called
// by any thread while nothing is recorded.
class Fence {
 public:
  virtual ~Fence() = default;
  // To record this stream then takes no memory, until clear.
  virtual Status reserve(void* stream) = 0;
  // What the stream holds by now is awaited as well. Refused while the stream is being captured.
  virtual Status record(void* stream) = 0;
  // The same for the placements given to the sink by now; needs no memory.
  virtual Status record_placements() = 0;
  virtual Result<bool> is_passed() = 0;
  virtual Status wait() = 0;
  // On a stream that is being captured: what it holds by now is awaited from each launch of its
  // graph on, whatever stream that is on. run_index: this takes the place of an earlier capture.
  virtual Status capture(std::size_t run_index, void* stream) = 0;
  // Forgets what was recorded.
  virtual void clear() = 0;
};

// A device that runs beside the host, as a step needs it. Thread-safe.
class AsyncDevice {
 public:
  virtual ~AsyncDevice() = default;

  virtual Result<std::unique_ptr<Fence>> make_fence() = 0;
  virtual Result<bool> is_capturing(void* stream) = 0;

  // Where the rows' placements go; reserve: enqueue then allocates nothing for up to that many
  // rows of one load. join: the stream goes on after what was enqueued by now.
  virtual PlacementSink& placements() = 0;
  virtual Status reserve_placements(std::size_t rows_max) = 0;
  virtual Status join_placements(void* stream) = 0;

  // A flag that a captured stream can wait for. Only where has_graph_wait.
  virtual bool has_graph_wait() const = 0;
  virtual Result<std::unique_ptr<SlotMemory>> make_flag() = 0;
  virtual Status wait_for_flag(SlotMemory& flag, void* stream) = 0;
  // Raises it after the placements enqueued by now.
  virtual Status raise_flag(SlotMemory& flag) = 0;
  // For the next wait; none is under way.
  virtual void lower_flag(SlotMemory& flag) = 0;

  // Copies token ids that are valid on the stream to the host and returns when they are there.
  virtual Status read_tokens(const TokenId* tokens, std::span<TokenId> out, void* stream) = 0;
  // Copies encoded rows to the host, out [slots, row bytes], after the placements.
  virtual Status read_slots(const RowView& view, std::span<const SlotId> slots, std::byte* out) = 0;

  // Returns when the device has nothing more to do.
  virtual Status wait_for_all() = 0;
};

// What an engine runs on: memory and the layers' operators.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const std::string& device_name() const = 0;
  virtual std::int32_t thread_count() const = 0;
  // Hashes long texts while the device computes; null where the CPU has the layers to compute.
  virtual ThreadPool* staging_pool() { return nullptr; }
  virtual kernels::Arithmetic default_arithmetic() const = 0;
  virtual SlotPlace slot_place() const = 0;

  // Null where run returns when everything is done.
  virtual AsyncDevice* async() = 0;

  // Memory for slots, for carried state, and, where slots are not visible to the host, pinned host
  // memory for rows to land in.
  virtual SlotMemoryFactory slot_memory() = 0;
  virtual SlotMemoryFactory state_memory() = 0;
  virtual SlotMemoryFactory landing_memory() = 0;

  // Reads the layer's dense weights onto the device.
  virtual Result<std::unique_ptr<Layer>> load_layer(const ModelSpec& model, const LayerSpec& layer,
                                                    const LayerOptions& options) = 0;
};

// Positions of float state that a layer carries.
std::int32_t carried_window(const LayerSpec& layer);

// The backend of options.device: "cpu", "cuda" or "cuda:N".
Result<std::unique_ptr<Backend>> make_backend(const EngineOptions& options);

// thread_count 0: all processors of this process.
Result<std::unique_ptr<Backend>> make_cpu_backend(std::int32_t thread_count);

// thread_count 0: up to eight. Refused by a build without CUDA.
Result<std::unique_ptr<Backend>> make_cuda_backend(std::int32_t device_index, SlotPlace slot_place,
                                                   std::int32_t thread_count);

}  // namespace ple
