#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "cache/row_cache.hpp"
#include "engine/device_step.hpp"
#include "engine/engine.hpp"
#include "engine/layer.hpp"
#include "engine/sequence.hpp"

namespace ple {

// A ragged batch: sequence i takes the next token_counts[i] of tokens.
struct Batch {
  std::span<const std::shared_ptr<Sequence>> sequences;
  std::span<const std::int32_t> token_counts;
  std::span<const TokenId> tokens;
  // Instead of tokens: as many ids as the counts' sum, on the device and valid on stream.
  const TokenId* device_tokens = nullptr;
  void* stream = nullptr;
  std::span<const std::int64_t> positions;  // empty, or where each sequence must stand
};

// What run is asked for, beside what was staged.
struct StepRun {
  Element element = Element::f32;
  kernels::OutputMode mode = kernels::OutputMode::update;
  const void* input = nullptr;
  void* output = nullptr;
  void* stream = nullptr;
};

// One batch on its way through an engine's layers: stage, run, then commit or discard, and again.
// Its memory is taken once, for the largest batch. Belongs to one thread at a time.
class Step {
 public:
  static Result<std::unique_ptr<Step>> create(std::shared_ptr<Engine> engine,
                                              std::int32_t tokens_max, std::int32_t sequences_max);
  ~Step() { discard(); }

  // On failure nothing is staged.
  Status stage(const Batch& batch);
  std::size_t sequence_count() const { return state_ == State::idle ? 0 : members_.size(); }
  bool ready() const;
  Status wait();
  Status run(std::int32_t layer_index, const StepRun& run);
  // For captured runs. On a stream that is being captured: lets the graph wait for the rows.
  Status prepare(void* stream);
  // accepted: empty for all.
  Status commit(std::span<const std::int32_t> accepted);
  void discard();

 private:
  enum class State { idle, staged, failed };

  // What the step needs for one layer of the engine.
  struct LayerPart {
    std::unique_ptr<StagedRows> rows;
    std::unique_ptr<LayerWorkspace> workspace;
    std::vector<RowId> row_ids;
    std::vector<LayerSpan> spans;
  };

  // One sequence's part in the batch.
  struct Member {
    std::shared_ptr<Sequence> sequence;
    StagedSpan staged;
    std::int32_t token_begin = 0;
  };

  explicit Step(std::shared_ptr<Engine> engine) : engine_(std::move(engine)) {}

  std::size_t ids_max() const;
  Status check(const Batch& batch) const;
  Status read_tokens(const Batch& batch);
  Status stage_tokens(const Batch& batch);
  Status stage_rows();
  void log_gather() const;
  Status arrive(void* stream);
  LayerRun layer_run(const LayerPart& part, const StepRun& run) const;
  Status prepare_layers(bool is_empty);
  bool empties_graph();
  void finish();
  std::int64_t bytes_for(std::int64_t token_count) const;

  std::shared_ptr<Engine> engine_;
  std::int32_t tokens_max_ = 0;
  std::int32_t sequences_max_ = 0;
  std::vector<LayerPart> parts_;

  State state_ = State::idle;
  Status failure_;  // why state_ is failed
  bool arrived_ = false;
  bool ran_ = false;
  bool is_next_ = false;     // nothing was staged ahead of it, so that it can run and be committed
  bool is_written_ = false;  // captured runs find the batch
  bool has_graph_ = false;   // a run was captured
  std::uint64_t batch_number_ = 0;
  std::vector<Member> members_;  // where a device runs beside the host, until the next batch
  std::vector<TokenId> tokens_;
  std::unique_ptr<DeviceStep> device_;  // null where run returns when all is done
};

}  // namespace ple
