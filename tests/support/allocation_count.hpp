#pragma once

#include <cstdint>

namespace ple::test {

// Calls of operator new by the whole process so far. Only in tests that link allocation_count.cpp.
std::uint64_t allocation_count();

}  // namespace ple::test
