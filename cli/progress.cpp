#include "progress.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "names.hpp"

namespace pleiades::cli {
namespace {

constexpr std::chrono::seconds kQuiet{2};
constexpr std::chrono::milliseconds kFrame{100};
constexpr std::size_t kBarColumns = 30;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressBar::~ProgressBar() {
  if (is_drawn_) fmt::print(stderr, "{}", kClearLine);
}

void ProgressBar::update(std::uint64_t done, std::uint64_t total) {
  const Clock::time_point now = Clock::now();
  if (now - started_ < kQuiet || now - drawn_ < kFrame || ::isatty(STDERR_FILENO) == 0) return;
  drawn_ = now;
  is_drawn_ = true;

  const double share =
      total == 0 ? 1.0 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const auto columns = static_cast<std::size_t>(share * kBarColumns);
  const std::string bar = std::string(columns, '#') + std::string(kBarColumns - columns, '.');
  const auto rate = static_cast<std::uint64_t>(static_cast<double>(done) / seconds);
  const double left = share > 0 ? seconds * (1 - share) / share : 0;
  fmt::print(stderr, "{}{} [{}] {:3.0f} %  {} of {}, {}/s, {:.0f} s left", kClearLine, label_, bar,
             100 * share, amount(done), amount(total), amount(rate), left);
  std::fflush(stderr);
}

std::string ProgressBar::amount(std::uint64_t value) const {
  return unit_ == Unit::bytes ? bytes_text(value) : count_text(value);
}

}  // namespace pleiades::cli
