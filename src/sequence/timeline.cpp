#include "sequence/timeline.hpp"

#include <algorithm>

#include "base/assert.hpp"
#include "base/error.hpp"

namespace ple {

Timeline::Timeline(const TimelineOptions& options)
    : options_(options), write_max_(options.window == 0 ? 0 : options.window + options.draft_max) {}

std::int32_t Timeline::wrap(std::int64_t entry) const {
  const std::int64_t length = ring_length();
  if (length == 0) return 0;
  if (entry >= length) entry -= length;  // without a division: mostly that is all
  if (entry < 0 || entry >= length) entry = (entry % length + length) % length;
  return static_cast<std::int32_t>(entry);
}

std::size_t Timeline::tokens_needed(std::int64_t position) const {
  const std::int64_t reach = std::int64_t{options_.lookback} + options_.window;
  return static_cast<std::size_t>(std::min(position, reach));
}

std::int64_t Timeline::staged_end() const {
  return position_ + static_cast<std::int64_t>(tokens_.size() - committed_count_);
}

std::span<const TokenId> Timeline::history() const {
  const std::size_t count = std::min(tokens_.size(), static_cast<std::size_t>(options_.lookback));
  return {tokens_.data() + tokens_.size() - count, count};
}

Result<StagedSpan> Timeline::stage(std::span<const TokenId> tokens) {
  if (staged_count_ == kStagedMax) {
    return error(StatusCode::wrong_state,
                 "the sequence at position {} is in {} staged steps: commit or discard one first",
                 position_, kStagedMax);
  }
  const Ring& ring = staged_count_ == 0 ? ring_ : staged_[0].ring_after;
  StagedSpan span;
  span.ticket = next_ticket_++;
  span.position = staged_end();
  span.token_count = static_cast<std::int32_t>(tokens.size());
  span.write_count = std::min(span.token_count, write_max_);
  span.cursor = ring.cursor;
  const std::int32_t reached =
      span.token_count > span.write_count ? span.write_count : ring.valid + span.write_count;
  staged_[staged_count_] = {
      {wrap(std::int64_t{span.cursor} + span.write_count), std::min(reached, ring_length())}, span};
  drop_old_tokens();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  ++staged_count_;
  return span;
}

// Old ids go when they are more than half of all, so that the cost is linear over all steps.
void Timeline::drop_old_tokens() {
  const auto kept = static_cast<std::size_t>(std::int64_t{options_.lookback} + ring_length() +
                                             options_.draft_max);
  if (committed_count_ <= 2 * kept) return;
  const auto dropped = static_cast<std::ptrdiff_t>(committed_count_ - kept);
  tokens_.erase(tokens_.begin(), tokens_.begin() + dropped);
  committed_count_ = kept;
}

Status Timeline::check_runnable(std::uint64_t ticket) const {
  if (staged_count_ > 0 && staged_[0].span.ticket == ticket) return {};
  if (staged_count_ > 1 && staged_[1].span.ticket == ticket) {
    return error(
        StatusCode::wrong_state,
        "the sequence at position {} has an earlier step staged: run and commit that first",
        position_);
  }
  return error(StatusCode::wrong_state,
               "the sequence at position {} no longer has this step staged: an earlier one was "
               "discarded",
               position_);
}

Status Timeline::check_commit(std::uint64_t ticket, std::int32_t accepted) const {
  const std::int32_t count = staged_[0].span.token_count;
  PLE_TRY(check_runnable(ticket));
  if (accepted < 0 || accepted > count) {
    return error(StatusCode::invalid_argument, "accepted {} of {} staged tokens", accepted, count);
  }
  const std::int32_t rejected = count - accepted;
  if (rejected > options_.draft_max) {
    return error(StatusCode::invalid_argument, "{} of {} tokens rejected, beyond draft_max {}",
                 rejected, count, options_.draft_max);
  }
  if (rejected > 0 && staged_count_ > 1) {
    return error(StatusCode::wrong_state,
                 "{} of {} tokens rejected while a later step is staged behind them", rejected,
                 count);
  }
  return {};
}

Status Timeline::commit(std::uint64_t ticket, std::int32_t accepted) {
  PLE_TRY(check_commit(ticket, accepted));
  const std::int32_t rejected = staged_[0].span.token_count - accepted;
  commit_oldest();
  if (rejected == 0) return {};
  tokens_.resize(tokens_.size() - static_cast<std::size_t>(rejected));
  committed_count_ = tokens_.size();
  position_ -= rejected;
  ring_ = {wrap(std::int64_t{ring_.cursor} - rejected), std::max(0, ring_.valid - rejected)};
  return {};
}

void Timeline::discard(std::uint64_t ticket, bool ran) {
  if (staged_count_ > 0 && staged_[0].span.ticket == ticket) {
    // It ran over the ring's oldest entries.
    if (ran) ring_.valid = std::min(ring_.valid, ring_length() - staged_[0].span.write_count);
    tokens_.resize(committed_count_);
    staged_count_ = 0;
  } else if (staged_count_ > 1 && staged_[1].span.ticket == ticket) {
    tokens_.resize(tokens_.size() - static_cast<std::size_t>(staged_[1].span.token_count));
    staged_count_ = 1;
  }
}

Status Timeline::rewind(std::int64_t position) {
  if (staged_count_ > 0) {
    return error(StatusCode::wrong_state, "rewind to position {} while a step is staged", position);
  }
  if (position < 0 || position > position_) {
    return error(StatusCode::invalid_argument, "rewind to position {} of a sequence at {}",
                 position, position_);
  }
  const std::int64_t back = position_ - position;
  const std::int64_t ids_left = static_cast<std::int64_t>(committed_count_) - back;
  const std::int64_t ring_left = ring_.valid - back;
  if (position == 0) {
    tokens_.clear();
    ring_.valid = 0;
  } else if (ids_left < static_cast<std::int64_t>(tokens_needed(position)) ||
             (options_.window > 0 &&
              ring_left < std::min<std::int64_t>(position, options_.window))) {
    return error(StatusCode::invalid_argument,
                 "rewind from position {} to {}: the sequence does not hold its past that far back "
                 "(draft_max {})",
                 position_, position, options_.draft_max);
  } else {
    tokens_.resize(static_cast<std::size_t>(ids_left));
    ring_.valid = static_cast<std::int32_t>(std::max<std::int64_t>(ring_left, 0));
  }
  committed_count_ = tokens_.size();
  ring_.cursor = wrap(ring_.cursor - back);
  position_ = position;
  return {};
}

std::span<const TokenId> Timeline::recent_tokens() const {
  const std::size_t count = tokens_needed(position_);
  return {tokens_.data() + committed_count_ - count, count};
}

std::int32_t Timeline::ring_entry(std::int32_t back) const {
  PLE_ASSERT(back >= 1);
  PLE_ASSERT(back <= ring_.valid);
  return wrap(std::int64_t{ring_.cursor} - back);
}

Status Timeline::restore(std::int64_t position, std::span<const TokenId> recent_tokens) {
  if (staged_count_ > 0) {
    return error(StatusCode::wrong_state, "restore while a step of the sequence is staged");
  }
  if (position < 0 || recent_tokens.size() != tokens_needed(position)) {
    return error(StatusCode::corrupt, "a state at position {} with {} token ids", position,
                 recent_tokens.size());
  }
  tokens_.assign(recent_tokens.begin(), recent_tokens.end());
  committed_count_ = tokens_.size();
  position_ = position;
  ring_.cursor = options_.window;
  ring_.valid = static_cast<std::int32_t>(std::min<std::int64_t>(position, options_.window));
  return {};
}

}  // namespace ple
