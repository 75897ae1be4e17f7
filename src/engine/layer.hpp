#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/row_view.hpp"
#include "base/status.hpp"
#include "base/types.hpp"
#include "kernels/ple_layer.hpp"
#include "sequence/snapshot.hpp"
#include "sequence/timeline.hpp"

namespace ple {

// The values of ple_element.
enum class Element : std::int32_t { f32 = 0, bf16 = 1 };

// How a step's element type is called below the engine.
inline kernels::HighwayType highway_type(Element element) {
  return element == Element::f32 ? kernels::HighwayType::f32 : kernels::HighwayType::bf16;
}

// One sequence's stretch of a step, with its carried state of one layer on the device.
struct LayerSpan {
  std::byte* state = nullptr;  // null for layers without carried state
  StagedSpan staged;
  std::int32_t token_begin = 0;  // in the step
};

// The memory that one step needs for one layer, made once; each backend has its own.
class LayerWorkspace {
 public:
  virtual ~LayerWorkspace() = default;
};

// A staged step, ready to run through one layer.
struct LayerRun {
  RowView rows;
  std::span<const SlotId> slots;     // [token_count, column_count]
  std::span<const TokenId> tokens;   // [token_count]
  std::span<const LayerSpan> spans;  // in the order of their tokens
  Element element = Element::f32;
  kernels::OutputMode mode = kernels::OutputMode::update;
  const void* input = nullptr;  // [token_count, input_elements]
  void* output = nullptr;       // [token_count, output_elements]
  void* stream = nullptr;
  bool is_captured = false;        // the stream is being captured
  std::uint64_t batch_number = 0;  // differs from batch to batch of a step
};

// What does not change over a layer's life.
struct LayerTraits {
  std::int64_t input_elements = 0;  // of one token; 0: the layer takes no input
  std::int64_t output_elements = 0;
  std::int32_t window = 0;        // positions of carried float state
  std::int32_t stream_count = 0;  // gates of one position
  std::int32_t value_bytes = 0;   // of one position in a full snapshot
  std::int64_t state_bytes = 0;   // of one sequence
  std::uint64_t dense_bytes = 0;
};

// A layer with its dense weights on a device: the family's operators behind one face. Thread-safe;
// a workspace serves one call at a time.
class Layer {
 public:
  virtual ~Layer() = default;

  const LayerTraits& traits() const { return traits_; }

  virtual Result<std::unique_ptr<LayerWorkspace>> make_workspace(
      std::int32_t tokens_max, std::int32_t sequences_max) const = 0;

  // Memory of a workspace for that many tokens.
  virtual std::int64_t workspace_bytes(std::int64_t token_count) const = 0;

  // Where the device runs beside the host, run only enqueues, unless input or output lie in host
  // memory that the device does not see; captured, it records a run of any batch that the
  // workspace has room for.
  virtual Status run(LayerWorkspace& workspace, const LayerRun& run) const = 0;

  // Puts the batch of run where captured runs of the workspace will find it, none of which is under
  // way. Until then they find an empty one.
  virtual Status prepare([[maybe_unused]] LayerWorkspace& workspace,
                         [[maybe_unused]] const LayerRun& run) const {
    return {};
  }

  // Carried state; only layers with a window are asked, and implement both. entries are ring
  // entries, oldest position first.
  virtual Status save_state([[maybe_unused]] const std::byte* state,
                            [[maybe_unused]] std::span<const std::int32_t> entries,
                            [[maybe_unused]] SnapshotKind kind,
                            [[maybe_unused]] SnapshotLayer& out) const {
    return {};
  }
  // Fills entries [entry_begin, entry_begin + positions of saved). Without values in saved they are
  // computed from the rows: slots [positions, column_count].
  virtual Status restore_state([[maybe_unused]] std::byte* state,
                               [[maybe_unused]] std::int32_t entry_begin,
                               [[maybe_unused]] const SnapshotLayer& saved,
                               [[maybe_unused]] const RowView& rows,
                               [[maybe_unused]] std::span<const SlotId> slots) const {
    return {};
  }

 protected:
  LayerTraits traits_;
};

}  // namespace ple
