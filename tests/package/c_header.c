/* The contract compiles as strict C11, and its initializers match its structs. */
#include "pleiades/pleiades.h"

extern const ple_engine_options default_engine_options;
const ple_engine_options default_engine_options = PLE_ENGINE_OPTIONS_INIT;

extern const ple_step_options default_step_options;
const ple_step_options default_step_options = PLE_STEP_OPTIONS_INIT;
