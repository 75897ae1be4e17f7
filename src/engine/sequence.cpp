#include "engine/sequence.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"

namespace ple {

Result<std::shared_ptr<Sequence>> Sequence::create(std::shared_ptr<Engine> engine) {
  std::shared_ptr<Sequence> sequence(new Sequence(std::move(engine)));
  for (const EngineLayer& layer : sequence->engine_->layers()) {
    std::unique_ptr<SlotMemory> state;
    if (layer.layer->traits().state_bytes > 0) {
      PLE_TRY_ASSIGN(state, sequence->engine_->backend().state_memory()(
                                static_cast<std::size_t>(layer.layer->traits().state_bytes)));
    }
    sequence->states_.push_back(std::move(state));
  }
  return sequence;
}

void Sequence::add_states(std::vector<std::shared_ptr<SlotMemory>>& states) const {
  for (const auto& state : states_) {
    if (state != nullptr) states.push_back(state);
  }
}

SnapshotIdentity Sequence::identity() const {
  return {.geometry = engine_->model().geometry_identity,
          .weights = engine_->model().weights_identity,
          .arithmetic = static_cast<std::int32_t>(engine_->info().arithmetic)};
}

Result<std::vector<std::byte>> Sequence::snapshot(SnapshotKind kind) const {
  if (timeline_.staged_count() > 0) {
    return error(StatusCode::wrong_state, "snapshot while a step of the sequence is staged");
  }
  Snapshot saved;
  saved.kind = kind;
  saved.identity = identity();
  saved.position = timeline_.position();
  saved.position_count =
      static_cast<std::int32_t>(std::min<std::int64_t>(saved.position, engine_->past().window));
  const auto recent = timeline_.recent_tokens();
  saved.recent_tokens.assign(recent.begin(), recent.end());
  std::vector<std::int32_t> entries;
  for (std::int32_t back = saved.position_count; back >= 1; --back) {
    entries.push_back(timeline_.ring_entry(back));
  }
  for (std::size_t i = 0; i < engine_->layers().size(); ++i) {
    const EngineLayer& layer = engine_->layers()[i];
    if (layer.layer->traits().window == 0) continue;
    SnapshotLayer saved_layer;
    saved_layer.layer_index = layer.spec->layer_index;
    PLE_TRY(engine_->in_flight().wait_for(*states_[i]));
    PLE_TRY(layer.layer->save_state(states_[i]->kernel_address(), entries, kind, saved_layer));
    saved.layers.push_back(std::move(saved_layer));
  }
  std::vector<std::byte> blob(encoded_bytes(saved));
  encode(saved, blob);
  return blob;
}

Status Sequence::restore(std::span<const std::byte> blob) {
  if (timeline_.staged_count() > 0) {
    return error(StatusCode::wrong_state, "restore while a step of the sequence is staged");
  }
  std::vector<SnapshotLayerShape> shapes;
  for (const EngineLayer& layer : engine_->layers()) {
    const LayerTraits& traits = layer.layer->traits();
    if (traits.window == 0) continue;
    shapes.push_back({layer.spec->layer_index, traits.stream_count, traits.value_bytes});
  }
  PLE_TRY_ASSIGN(const Snapshot saved, decode(blob, identity(), engine_->past().window,
                                              engine_->past().lookback, shapes));
  for (const EngineLayer& layer : engine_->layers()) {
    PLE_TRY(layer.spec->hash->check(saved.recent_tokens));
  }
  // Into fresh memory, so that a failed read leaves the sequence as it was.
  std::vector<std::shared_ptr<SlotMemory>> states;
  for (std::size_t i = 0; i < engine_->layers().size(); ++i) {
    std::unique_ptr<SlotMemory> state;
    if (states_[i] != nullptr) {
      PLE_TRY_ASSIGN(state, engine_->backend().state_memory()(states_[i]->bytes()));
      PLE_TRY(restore_layer(i, saved, *state));
    }
    states.push_back(std::move(state));
  }
  PLE_TRY(timeline_.restore(saved.position, saved.recent_tokens));
  states_ = std::move(states);
  return {};
}

Status Sequence::restore_layer(std::size_t layer, const Snapshot& saved, SlotMemory& state) const {
  if (saved.position_count == 0) return {};
  const EngineLayer& engine_layer = engine_->layers()[layer];
  const auto found = std::find_if(saved.layers.begin(), saved.layers.end(), [&](const auto& l) {
    return l.layer_index == engine_layer.spec->layer_index;
  });
  const std::int32_t entry_begin = engine_->past().window - saved.position_count;
  if (saved.kind == SnapshotKind::full) {
    return engine_layer.layer->restore_state(state.kernel_address(), entry_begin, *found, {}, {});
  }
  const RowHash& hash = *engine_layer.spec->hash;
  const std::span<const TokenId> recent(saved.recent_tokens);
  const auto positions = static_cast<std::size_t>(saved.position_count);
  std::vector<RowId> ids(positions * static_cast<std::size_t>(hash.column_count()));
  hash.row_ids(recent.first(recent.size() - positions), recent.last(positions), ids.data());
  PLE_TRY_ASSIGN(const auto staged, engine_layer.cache->make_staged(ids.size()));
  PLE_TRY(engine_layer.cache->stage(ids, *staged));
  Status status = staged->wait();
  AsyncDevice* const device = engine_->backend().async();
  if (status.is_ok() && device != nullptr) status = staged->place(device->placements());
  if (status.is_ok()) {
    status = engine_layer.layer->restore_state(state.kernel_address(), entry_begin, *found,
                                               staged->view(), staged->slots());
  }
  staged->release();
  return status;
}

Status Sequence::announce(std::span<const TokenId> tokens) {
  for (const EngineLayer& layer : engine_->layers()) {
    const RowHash& hash = *layer.spec->hash;
    PLE_TRY(hash.check(tokens));
    std::vector<RowId> ids(tokens.size() * static_cast<std::size_t>(hash.column_count()));
    hash.row_ids(timeline_.history(), tokens, ids.data());
    PLE_TRY(layer.cache->prefetch(ids).status());
  }
  return {};
}

}  // namespace ple
