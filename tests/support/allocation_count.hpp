#pragma once

#include <cstdint>

namespace ple::test {

// Calls of operator new by the whole process so far. Only in tests that link allocation_count.cpp.
std::uint64_t allocation_count();

// Lets every allocation of the calling thread after so many others fail; negative: none.
void fail_allocation_after(std::int64_t count);

}  // namespace ple::test
