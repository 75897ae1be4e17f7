#pragma once

#include <cstdlib>

// States what only a bug of ours can break. On in the checking presets (PLE_ASSERTIONS), compiled
// out in release. Arguments from users or files are never asserted: they are checked.
#if defined(PLE_ASSERTIONS)
#define PLE_ASSERT(condition) ((condition) ? static_cast<void>(0) : std::abort())
#else
#define PLE_ASSERT(condition) static_cast<void>(sizeof(condition))
#endif
