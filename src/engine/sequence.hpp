#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "engine/engine.hpp"
#include "sequence/snapshot.hpp"
#include "sequence/timeline.hpp"

namespace ple {

// One token timeline with its carried state of every layer of an engine. Belongs to one thread at a
// time; a step that holds it keeps it alive.
class Sequence {
 public:
  static Result<std::shared_ptr<Sequence>> create(std::shared_ptr<Engine> engine);

  Engine& engine() { return *engine_; }
  Timeline& timeline() { return timeline_; }
  const Timeline& timeline() const { return timeline_; }

  // Notes that the sequence is in this batch (see Engine::next_batch); false if it was already.
  bool join_batch(std::uint64_t batch) { return std::exchange(last_batch_, batch) != batch; }

  // The carried state of layer number layer (of the engine's), on the device; null without one.
  std::byte* state(std::size_t layer) {
    return states_[layer] == nullptr ? nullptr : states_[layer]->kernel_address();
  }

  // Appends the carried states, to be kept for a device that still uses them.
  void add_states(std::vector<std::shared_ptr<SlotMemory>>& states) const;

  Result<std::vector<std::byte>> snapshot(SnapshotKind kind) const;
  Status restore(std::span<const std::byte> blob);

  // Starts reading the rows of tokens that will follow what is committed and staged.
  Status announce(std::span<const TokenId> tokens);

 private:
  explicit Sequence(std::shared_ptr<Engine> engine)
      : engine_(std::move(engine)), timeline_(engine_->past()) {}

  SnapshotIdentity identity() const;
  Status restore_layer(std::size_t layer, const Snapshot& saved, SlotMemory& state) const;

  std::shared_ptr<Engine> engine_;
  Timeline timeline_;
  std::vector<std::shared_ptr<SlotMemory>> states_;
  std::uint64_t last_batch_ = 0;
};

}  // namespace ple
