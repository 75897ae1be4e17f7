#pragma once

namespace pleiades::cli {

// From now on an interrupt or a termination is remembered instead of ending the process.
void catch_stop_signals();
bool is_stopped();
// Ends the process by the signal that came, if one did, so that the shell sees it.
void stop_by_signal();

}  // namespace pleiades::cli
