#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.hpp"
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

// A device that an engine runs on: its memory and the layers' operators.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const std::string& device_name() const = 0;
  virtual std::int32_t thread_count() const = 0;
  virtual kernels::Arithmetic default_arithmetic() const = 0;

  // Memory for slots and for carried state (zero when new); and pinned host memory where slots are
  // not visible to the host, else nothing.
  virtual bool slots_are_in_host_memory() const = 0;
  virtual SlotMemoryFactory slot_memory() const = 0;
  virtual SlotMemoryFactory landing_memory() const = 0;

  // Reads the layer's dense weights onto the device.
  virtual Result<std::unique_ptr<Layer>> load_layer(const ModelSpec& model, const LayerSpec& layer,
                                                    const LayerOptions& options) = 0;
};

// Positions of float state that a layer carries.
std::int32_t carried_window(const LayerSpec& layer);

// thread_count 0: all processors of this process.
Result<std::unique_ptr<Backend>> make_cpu_backend(std::int32_t thread_count);

}  // namespace ple
