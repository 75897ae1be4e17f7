#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace pleiades::cli {

// A progress bar on stderr: only on a terminal, only for work of more than two seconds, and gone
// when it is destroyed. One thread at a time.
class ProgressBar {
 public:
  enum class Unit { bytes, count };

  ProgressBar(std::string label, Unit unit) : label_(std::move(label)), unit_(unit) {}
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done, std::uint64_t total);

 private:
  using Clock = std::chrono::steady_clock;

  std::string amount(std::uint64_t value) const;

  std::string label_;
  Unit unit_;
  Clock::time_point started_ = Clock::now();
  Clock::time_point drawn_ = started_;
  bool is_drawn_ = false;
};

}  // namespace pleiades::cli
