#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.hpp"
#include "base/types.hpp"

namespace ple {

// How much of the past a sequence needs and keeps.
struct TimelineOptions {
  std::int32_t lookback = 0;   // ids before a position that its rows depend on
  std::int32_t window = 0;     // positions of float state before a position; 0: none is carried
  std::int32_t draft_max = 0;  // tokens that a commit may reject or a rewind may take back
};

// Where a staged stretch of tokens stands, in time and in the ring of carried state.
struct StagedSpan {
  std::uint64_t ticket = 0;   // names the stretch; 0: none
  std::int64_t position = 0;  // of its first token
  std::int32_t token_count = 0;
  std::int32_t cursor = 0;       // ring entry of the next token
  std::int32_t write_count = 0;  // ring entries that the stretch leaves
};

// One timeline of tokens, by absolute position: what is committed, and up to two stretches staged
// behind it. Nothing moves before commit. Pure bookkeeping: the ring's memory is the engine's.
//
// The ring has window + write_max entries, write_max = window + draft_max. A stretch writes its
// last min(token_count, write_max) positions from the cursor on, so it never overwrites the window
// before the cursor: it can run again, and taking tokens back only moves the cursor. Only the
// oldest stretch runs.
class Timeline {
 public:
  static constexpr std::size_t kStagedMax = 2;

  explicit Timeline(const TimelineOptions& options);

  std::int32_t ring_length() const { return options_.window + write_max_; }

  // Committed tokens; and where the next staged stretch would begin.
  std::int64_t position() const { return position_; }
  std::int64_t staged_end() const;
  std::size_t staged_count() const { return staged_count_; }

  // The ids right before staged_end(): lookback of them, fewer only at the sequence's start.
  std::span<const TokenId> history() const;

  // Stages tokens behind what is committed and staged. Refused when kStagedMax are staged already.
  Result<StagedSpan> stage(std::span<const TokenId> tokens);

  // Refused unless the stretch is staged and no other is staged before it.
  Status check_runnable(std::uint64_t ticket) const;

  // What commit would refuse.
  Status check_commit(std::uint64_t ticket, std::int32_t accepted) const;

  // Moves forward by the first accepted tokens of the oldest stretch. Rejecting more than draft_max
  // is refused, and rejecting any while another stretch is staged behind them.
  Status commit(std::uint64_t ticket, std::int32_t accepted);

  // By all of the oldest stretch; there is one. Nothing but stores: a batch commits hundreds of
  // sequences while its device may be idle.
  void commit_oldest() {
    const Stretch& oldest = staged_[0];
    position_ += oldest.span.token_count;
    committed_count_ += static_cast<std::size_t>(oldest.span.token_count);
    ring_ = oldest.ring_after;
    if (--staged_count_ > 0) staged_[0] = staged_[1];
  }

  // Forgets the stretch and any staged behind it; ran says whether it may have written the ring.
  // Harmless when it is not staged.
  void discard(std::uint64_t ticket, bool ran);

  // Moves back. Position 0 is always possible.
  Status rewind(std::int64_t position);

  // For a snapshot: the ids before position(), window + lookback of them or all there are; and the
  // ring entry of position() - back, back = 1 .. min(position, window).
  std::span<const TokenId> recent_tokens() const;
  std::int32_t ring_entry(std::int32_t back) const;

  // Replaces everything: stands at position behind these ids (as recent_tokens gave them), with the
  // next ring entry `window`: position - back lies in entry window - back.
  Status restore(std::int64_t position, std::span<const TokenId> recent_tokens);

 private:
  std::size_t tokens_needed(std::int64_t position) const;
  std::int32_t wrap(std::int64_t entry) const;
  void drop_old_tokens();

  // How the ring stands behind a position.
  struct Ring {
    std::int32_t cursor = 0;  // the next entry
    std::int32_t valid = 0;   // positions right before that it still holds
  };
  struct Stretch {
    Ring ring_after;  // all of its tokens
    StagedSpan span;
  };

  // What commit_oldest touches lies in one line of the processor's cache.
  alignas(64) std::int64_t position_ = 0;
  Ring ring_;
  std::size_t committed_count_ = 0;  // of tokens_
  std::size_t staged_count_ = 0;
  Stretch staged_[kStagedMax];
  TimelineOptions options_;
  std::int32_t write_max_;

  // The ids up to staged_end(), without a gap, so that a hash reads them where they are.
  std::vector<TokenId> tokens_;
  std::uint64_t next_ticket_ = 1;
};

}  // namespace ple
