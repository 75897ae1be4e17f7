#include "support/allocation_count.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> call_count = 0;
thread_local std::int64_t calls_until_failure = -1;
}  // namespace

std::uint64_t ple::test::allocation_count() { return call_count; }

void ple::test::fail_allocation_after(std::int64_t count) { calls_until_failure = count; }

void* operator new(std::size_t bytes) {
  ++call_count;
  if (calls_until_failure == 0) throw std::bad_alloc();
  if (calls_until_failure > 0) --calls_until_failure;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
