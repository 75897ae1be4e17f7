#include <span>
#include <utility>

#include "capi/handles.hpp"

namespace {

using namespace ple;
using capi::check_pointer;
using capi::check_struct;
using capi::guarded;

// The batch's arrays as spans; sequences hold the shared pointers that a Batch needs.
Result<Batch> to_batch(const ple_batch& from, std::vector<std::shared_ptr<Sequence>>& sequences) {
  if (from.sequence_count < 0) {
    return error(StatusCode::invalid_argument, "sequence_count {}", from.sequence_count);
  }
  const auto count = static_cast<std::size_t>(from.sequence_count);
  if (count > 0) {
    PLE_TRY(check_pointer(from.sequences, "batch.sequences"));
    PLE_TRY(check_pointer(from.token_counts, "batch.token_counts"));
  }
  sequences.clear();
  std::int64_t token_count = 0;
  for (std::size_t i = 0; i < count; ++i) {
    PLE_TRY(check_pointer(from.sequences[i], "a sequence of the batch"));
    sequences.push_back(from.sequences[i]->sequence);
    if (from.token_counts[i] < 0) {
      return error(StatusCode::invalid_argument, "sequence {} of the batch takes {} tokens", i,
                   from.token_counts[i]);
    }
    token_count += from.token_counts[i];
  }
  if (token_count > 0 && from.device_tokens == nullptr)
    PLE_TRY(check_pointer(from.tokens, "batch.tokens"));
  Batch batch;
  batch.sequences = sequences;
  batch.token_counts = {from.token_counts, count};
  if (from.device_tokens == nullptr) {
    batch.tokens = {from.tokens, static_cast<std::size_t>(token_count)};
  } else {
    batch.device_tokens = from.device_tokens;
    batch.stream = from.stream;
  }
  if (from.positions != nullptr) batch.positions = {from.positions, count};
  return batch;
}

}  // namespace

ple_status ple_step_create(ple_engine* engine, const ple_step_options* options, ple_step** step) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(engine, "engine"));
    PLE_TRY(check_pointer(step, "step"));
    const ple_step_options defaults = PLE_STEP_OPTIONS_INIT;
    const ple_step_options& from = options == nullptr ? defaults : *options;
    PLE_TRY(check_struct(&from, "options"));
    PLE_TRY_ASSIGN(std::unique_ptr<Step> created,
                   Step::create(engine->engine, from.tokens_max, from.sequences_max));
    auto handle = std::make_unique<ple_step>();
    handle->step = std::move(created);
    handle->batch_sequences.reserve(static_cast<std::size_t>(from.sequences_max));
    *step = handle.release();
    return {};
  });
}

void ple_step_release(ple_step** step) {
  if (step == nullptr) return;
  delete *step;
  *step = nullptr;
}

ple_status ple_step_stage(ple_step* step, const ple_batch* batch) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    PLE_TRY(check_struct(batch, "batch"));
    PLE_TRY_ASSIGN(const Batch own_batch, to_batch(*batch, step->batch_sequences));
    const Status status = step->step->stage(own_batch);
    step->batch_sequences.clear();
    return status;
  });
}

ple_status ple_step_ready(const ple_step* step, int32_t* ready) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    PLE_TRY(check_pointer(ready, "ready"));
    *ready = step->step->ready() ? 1 : 0;
    return {};
  });
}

ple_status ple_step_wait(ple_step* step) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    return step->step->wait();
  });
}

ple_status ple_step_run(ple_step* step, int32_t layer, const ple_run_args* args) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    PLE_TRY(check_struct(args, "args"));
    PLE_TRY(capi::check_enum(args->element, PLE_BF16, "args.element"));
    PLE_TRY(capi::check_enum(args->mode, PLE_OUTPUT_DELTA, "args.mode"));
    return step->step->run(layer, {.element = static_cast<Element>(args->element),
                                   .mode = static_cast<kernels::OutputMode>(args->mode),
                                   .input = args->input,
                                   .output = args->output,
                                   .stream = args->stream});
  });
}

ple_status ple_step_prepare(ple_step* step, void* stream) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    return step->step->prepare(stream);
  });
}

ple_status ple_step_commit(ple_step* step, const int32_t* accepted) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    if (accepted == nullptr) return step->step->commit({});
    return step->step->commit({accepted, step->step->sequence_count()});
  });
}

ple_status ple_step_discard(ple_step* step) {
  return guarded([&]() -> Status {
    PLE_TRY(check_pointer(step, "step"));
    step->step->discard();
    return {};
  });
}
