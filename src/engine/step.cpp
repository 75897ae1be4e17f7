#include "engine/step.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "cache/row_requests.hpp"

namespace ple {

namespace {

// A gather of at least this many rows is worth a line of its own.
constexpr std::size_t kLargeGatherRows = 4096;

}  // namespace

Result<std::unique_ptr<Step>> Step::create(std::shared_ptr<Engine> engine, std::int32_t tokens_max,
                                           std::int32_t sequences_max) {
  if (tokens_max < 1 || sequences_max < 1) {
    return error(StatusCode::invalid_argument, "a step for {} tokens and {} sequences", tokens_max,
                 sequences_max);
  }
  std::unique_ptr<Step> step(new Step(std::move(engine)));
  step->tokens_max_ = tokens_max;
  step->sequences_max_ = sequences_max;
  step->tokens_.reserve(static_cast<std::size_t>(tokens_max));
  step->members_.reserve(static_cast<std::size_t>(sequences_max));
  for (const EngineLayer& layer : step->engine_->layers()) {
    const std::size_t ids_max = static_cast<std::size_t>(tokens_max) *
                                static_cast<std::size_t>(layer.spec->hash->column_count());
    LayerPart part;
    PLE_TRY_ASSIGN(part.rows, layer.cache->make_staged(ids_max));
    PLE_TRY_ASSIGN(part.workspace, layer.layer->make_workspace(tokens_max, sequences_max));
    part.row_ids.reserve(ids_max);
    part.spans.reserve(static_cast<std::size_t>(sequences_max));
    step->parts_.push_back(std::move(part));
  }
  if (AsyncDevice* const device = step->engine_->backend().async()) {
    std::vector<StagedRows*> rows;
    for (const LayerPart& part : step->parts_) rows.push_back(part.rows.get());
    const std::size_t states_max = static_cast<std::size_t>(sequences_max) * rows.size();
    PLE_TRY_ASSIGN(step->device_, DeviceStep::create(*device, step->engine_->in_flight(),
                                                     std::move(rows), states_max));
    PLE_TRY(device->reserve_placements(step->ids_max()));
  }
  return step;
}

std::size_t Step::ids_max() const {
  std::size_t columns = 0;
  for (const EngineLayer& layer : engine_->layers()) {
    columns = std::max(columns, static_cast<std::size_t>(layer.spec->hash->column_count()));
  }
  return columns * static_cast<std::size_t>(tokens_max_);
}

Status Step::check(const Batch& batch) const {
  if (state_ != State::idle) {
    return error(StatusCode::wrong_state,
                 "the step is staged already: commit or discard it before it is staged again");
  }
  const auto sequences = batch.sequences;
  if (batch.token_counts.size() != sequences.size()) {
    return error(StatusCode::invalid_argument, "{} token counts for {} sequences",
                 batch.token_counts.size(), sequences.size());
  }
  if (sequences.size() > static_cast<std::size_t>(sequences_max_)) {
    return error(StatusCode::invalid_argument, "{} sequences in a step made for {}",
                 sequences.size(), sequences_max_);
  }
  std::int64_t token_count = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    if (sequences[i] == nullptr || &sequences[i]->engine() != engine_.get()) {
      return error(StatusCode::invalid_argument, "sequence {} of the batch is of another engine",
                   i);
    }
    if (batch.token_counts[i] < 0) {
      return error(StatusCode::invalid_argument, "sequence {} of the batch takes {} tokens", i,
                   batch.token_counts[i]);
    }
    const std::int64_t stands = sequences[i]->timeline().staged_end();
    if (!batch.positions.empty() && batch.positions[i] != stands) {
      return error(StatusCode::wrong_state,
                   "sequence {} of the batch stands at position {}, expected {}", i, stands,
                   batch.positions[i]);
    }
    token_count += batch.token_counts[i];
  }
  if (batch.device_tokens == nullptr &&
      token_count != static_cast<std::int64_t>(batch.tokens.size())) {
    return error(StatusCode::invalid_argument, "{} tokens for counts that sum to {}",
                 batch.tokens.size(), token_count);
  }
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  if (token_count > kMost) {
    return error(StatusCode::invalid_argument,
                 "{} tokens in a step made for {}: no step takes more than {}", token_count,
                 tokens_max_, kMost);
  }
  if (token_count > tokens_max_) {
    return error(StatusCode::invalid_argument,
                 "{} tokens in a step made for {}: a step for them takes {} bytes", token_count,
                 tokens_max_, bytes_for(token_count));
  }
  return {};
}

std::int64_t Step::bytes_for(std::int64_t token_count) const {
  std::int64_t bytes = token_count * std::int64_t{sizeof(TokenId)};
  for (const EngineLayer& layer : engine_->layers()) {
    const std::int64_t staged_bytes =
        engine_->info().arena == Arena::resident ? 0 : slot_bytes_of(layer.source->encoding());
    bytes += token_count * layer.spec->hash->column_count() *
                 (std::int64_t{sizeof(RowId) + sizeof(SlotId)} + staged_bytes) +
             layer.layer->workspace_bytes(token_count);
  }
  return bytes;
}

Status Step::stage(const Batch& batch) {
  const ScopedTimer timer(engine_->counters().stage);
  PLE_TRY(check(batch));
  if (device_ != nullptr) PLE_TRY(device_->begin());
  PLE_TRY(read_tokens(batch));
  // Whatever ends this early, memory running out too, leaves nothing staged.
  struct Rollback {
    Step* step;
    ~Rollback() {
      if (step != nullptr) step->discard();
    }
  } rollback{this};
  PLE_TRY(stage_tokens(batch));
  PLE_TRY(stage_rows());
  if (has_graph_) PLE_TRY(prepare_layers(false));
  rollback.step = nullptr;
  log_gather();
  return {};
}

Status Step::read_tokens(const Batch& batch) {
  tokens_.assign(batch.tokens.begin(), batch.tokens.end());
  if (batch.device_tokens == nullptr) return {};
  AsyncDevice* const device = engine_->backend().async();
  if (device == nullptr) {
    return error(StatusCode::unsupported, "device tokens on an engine of the CPU");
  }
  tokens_.resize(static_cast<std::size_t>(
      std::accumulate(batch.token_counts.begin(), batch.token_counts.end(), 0)));
  return device->read_tokens(batch.device_tokens, tokens_, batch.stream);
}

Status Step::stage_tokens(const Batch& batch) {
  state_ = State::staged;
  arrived_ = false;
  ran_ = false;
  is_next_ = true;
  is_written_ = false;
  ++batch_number_;
  members_.clear();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto columns = static_cast<std::size_t>(engine_->layers()[i].spec->hash->column_count());
    parts_[i].row_ids.resize(tokens_.size() * columns);
    parts_[i].spans.clear();
    PLE_TRY(engine_->layers()[i].spec->hash->check(tokens_));
  }
  const std::uint64_t batch_number = engine_->next_batch();
  std::size_t token_begin = 0;
  for (std::size_t s = 0; s < batch.sequences.size(); ++s) {
    Sequence& sequence = *batch.sequences[s];
    const auto count = static_cast<std::size_t>(batch.token_counts[s]);
    const std::span<const TokenId> tokens = std::span(tokens_).subspan(token_begin, count);
    if (!sequence.join_batch(batch_number)) {
      return error(StatusCode::invalid_argument, "sequence {} stands in the batch twice", s);
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      const RowHash& hash = *engine_->layers()[i].spec->hash;
      RowId* const row_ids =
          parts_[i].row_ids.data() + token_begin * static_cast<std::size_t>(hash.column_count());
      ThreadPool* const pool = engine_->backend().staging_pool();
      if (pool == nullptr) {
        hash.row_ids(sequence.timeline().history(), tokens, row_ids);
      } else {
        hash.row_ids(sequence.timeline().history(), tokens, row_ids, *pool);
      }
    }
    Member member{.sequence = batch.sequences[s],
                  .staged = {},
                  .token_begin = static_cast<std::int32_t>(token_begin)};
    PLE_TRY_ASSIGN(member.staged, sequence.timeline().stage(tokens));
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].spans.push_back({sequence.state(i), member.staged, member.token_begin});
    }
    is_next_ = is_next_ && sequence.timeline().staged_count() == 1;
    if (device_ != nullptr) sequence.add_states(device_->states());
    members_.push_back(std::move(member));
    token_begin += count;
  }
  return {};
}

Status Step::stage_rows() {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    PLE_TRY(engine_->layers()[i].cache->stage(parts_[i].row_ids, *parts_[i].rows));
  }
  return {};
}

void Step::log_gather() const {
  std::size_t rows = 0;
  for (const LayerPart& part : parts_) rows += part.row_ids.size();
  engine_->log().log(rows >= kLargeGatherRows ? LogLevel::info : LogLevel::debug,
                     "staged {} rows for {} tokens of {} sequences", rows, tokens_.size(),
                     members_.size());
}

bool Step::ready() const {
  return state_ == State::idle ||
         std::all_of(parts_.begin(), parts_.end(),
                     [](const LayerPart& part) { return part.rows->ready(); });
}

Status Step::wait() {
  if (state_ == State::idle) {
    return error(StatusCode::wrong_state, "the step is not staged");
  }
  if (state_ == State::failed) return failure_;
  if (arrived_) return {};
  const ScopedTimer timer(engine_->counters().wait);
  for (LayerPart& part : parts_) {
    const Status status = part.rows->wait();
    if (part.rows->has_moved()) is_written_ = false;
    if (status.is_ok()) continue;
    state_ = State::failed;
    failure_ = status;
    return status;
  }
  arrived_ = true;
  return {};
}

// The rows are there, and placed before what follows on the stream.
Status Step::arrive(void* stream) {
  PLE_TRY(wait());
  if (!is_next_) {
    for (const Member& member : members_) {
      PLE_TRY(member.sequence->timeline().check_runnable(member.staged.ticket));
    }
  }
  return device_ == nullptr ? Status() : device_->place(stream);
}

LayerRun Step::layer_run(const LayerPart& part, const StepRun& run) const {
  return {.rows = part.rows->view(),
          .slots = part.rows->slots(),
          .tokens = tokens_,
          .spans = part.spans,
          .element = run.element,
          .mode = run.mode,
          .input = run.input,
          .output = run.output,
          .stream = run.stream,
          .batch_number = batch_number_};
}

Status Step::run(std::int32_t layer_index, const StepRun& run) {
  PLE_TRY_ASSIGN(const std::size_t index, engine_->find_layer(layer_index));
  bool is_captured = false;
  if (device_ != nullptr) {
    PLE_TRY_ASSIGN(is_captured, device_->is_capturing(run.stream));
  }
  if (!is_captured) {
    PLE_TRY(arrive(run.stream));
    if (tokens_.empty()) return {};
  } else if (state_ != State::staged) {
    return error(StatusCode::wrong_state,
                 "layer {}: a run is captured of a step that is not staged", layer_index);
  }
  const Layer& layer = *engine_->layers()[index].layer;
  if (run.output == nullptr || (run.input == nullptr && layer.traits().input_elements > 0)) {
    return error(StatusCode::invalid_argument, "layer {}: input or output is NULL", layer_index);
  }
  const ScopedTimer timer(engine_->counters().run);
  LayerPart& part = parts_[index];
  LayerRun layer_run = this->layer_run(part, run);
  layer_run.is_captured = is_captured;
  if (is_captured) {
    has_graph_ = true;
    PLE_TRY(layer.run(*part.workspace, layer_run));
    return device_->capture_run(index, run.stream);
  }
  ran_ = true;
  Status status = layer.run(*part.workspace, layer_run);
  // Also when only some of it was enqueued.
  const Status recorded = device_ == nullptr ? Status() : device_->record(run.stream);
  return status.is_ok() ? recorded : status;
}

Status Step::prepare(void* stream) {
  if (device_ == nullptr || state_ == State::idle) return wait();
  const Result<bool> is_captured = device_->is_capturing(stream);
  if (is_captured.is_ok() && is_captured.value()) return device_->capture_wait(stream);
  Status status = is_captured.status();
  if (status.is_ok()) status = arrive(stream);
  if (status.is_ok() && !is_written_) status = prepare_layers(false);
  if (status.is_ok()) {
    ran_ = true;
    return device_->let_go(stream);
  }
  if (empties_graph()) {
    state_ = State::failed;
    failure_ = status;
    static_cast<void>(device_->let_go(stream));
  }
  return status;
}

// A graph that waits already must not wait for ever: it gets an empty batch.
bool Step::empties_graph() {
  return device_->has_captured_wait() && !device_->is_prepared() && prepare_layers(true).is_ok();
}

Status Step::prepare_layers(bool is_empty) {
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    LayerRun run = layer_run(parts_[i], {});
    if (is_empty) {
      run.tokens = {};
      run.spans = {};
    }
    PLE_TRY(engine_->layers()[i].layer->prepare(*parts_[i].workspace, run));
  }
  is_written_ = true;
  return {};
}

Status Step::commit(std::span<const std::int32_t> accepted) {
  PLE_TRY(wait());
  if (!accepted.empty() && accepted.size() != members_.size()) {
    return error(StatusCode::invalid_argument, "{} accepted counts for {} sequences",
                 accepted.size(), members_.size());
  }
  const auto accepted_of = [&](std::size_t i) {
    return accepted.empty() ? members_[i].staged.token_count : accepted[i];
  };
  const bool is_plain = is_next_ && accepted.empty();
  if (!is_plain) {
    for (std::size_t i = 0; i < members_.size(); ++i) {
      const Member& member = members_[i];
      PLE_TRY(member.sequence->timeline().check_commit(member.staged.ticket, accepted_of(i)));
    }
  }
  if (device_ != nullptr) PLE_TRY(device_->record_prepared());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    Timeline& timeline = members_[i].sequence->timeline();
    if (is_plain) {
      timeline.commit_oldest();
    } else {
      PLE_TRY(timeline.commit(members_[i].staged.ticket, accepted_of(i)));
    }
  }
  const std::size_t token_count =
      accepted.empty() ? tokens_.size()
                       : std::accumulate(accepted.begin(), accepted.end(), std::size_t{0});
  engine_->counters().tokens.fetch_add(token_count, std::memory_order_relaxed);
  engine_->counters().steps.fetch_add(1, std::memory_order_relaxed);
  finish();
  return {};
}

void Step::discard() {
  if (state_ == State::idle) return;
  if (device_ != nullptr) {
    if (empties_graph()) static_cast<void>(device_->end_wait());
    static_cast<void>(device_->record_prepared());
  }
  for (const Member& member : members_) {
    member.sequence->timeline().discard(member.staged.ticket, ran_);
  }
  finish();
}

void Step::finish() {
  if (device_ == nullptr) {
    for (LayerPart& part : parts_) part.rows->release();
    members_.clear();
  } else {
    device_->end();
  }
  state_ = State::idle;
}

}  // namespace ple
