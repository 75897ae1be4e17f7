#include "stop_signal.hpp"

#include <csignal>

namespace pleiades::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

void remember_signal(int signal) { caught_signal = signal; }

}  // namespace

void catch_stop_signals() {
  std::signal(SIGINT, remember_signal);
  std::signal(SIGTERM, remember_signal);
}

bool is_stopped() { return caught_signal != 0; }

void stop_by_signal() {
  if (caught_signal == 0) return;
  std::signal(caught_signal, SIG_DFL);
  std::raise(caught_signal);
}

}  // namespace pleiades::cli
